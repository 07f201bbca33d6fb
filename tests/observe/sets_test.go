package observe

import (
	"fmt"
	"strings"
	"testing"
)

// Encodings follow Valkey's conversions whatever the thresholds, those of stored results too. No
// hash table of both integers and strings is a source: in which order Valkey walks it is chance.
func TestSetEncoding_IsValkeysUnderAnyThresholds(t *testing.T) {
	sets := []string{
		"1 2 3", "1 2 3 4 5 6 7 8", "-1 10 100", "a b", "a bb ccc dddd", "1 a", "1 2 3 x",
		"x 1 2 3", "1 1 1 1 1 1", "a a a a a a", "a b c d e f g h",
	}
	var lines strings.Builder
	write := func(format string, words ...any) { fmt.Fprintf(&lines, format+"\n", words...) }
	for _, intset := range []int{0, 1, 4, 512} {
		for _, listpack := range []int{0, 2, 5, 128} {
			for _, bytes := range []int{0, 1, 2, 64} {
				write("CONFIG SET set-max-intset-entries %d set-max-listpack-entries %d "+
					"set-max-listpack-value %d", intset, listpack, bytes)
				for index, members := range sets {
					write("DEL once single%d", index)
					write("SADD once %s\nOBJECT ENCODING once", members)
					for _, member := range strings.Fields(members) {
						write("SADD single%d %s\nOBJECT ENCODING single%d", index, member, index)
					}
				}
				for first := range sets {
					second := (first*3 + intset + listpack) % len(sets)
					for _, command := range []string{"SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"} {
						write("%s d single%d single%d\nOBJECT ENCODING d", command, first, second)
						write("%s d single%d single3 single5 single%d\nOBJECT ENCODING d", command,
							first, second)
					}
				}
				write("DEL to\nSMOVE single0 to 1\nOBJECT ENCODING to\nSMOVE single3 to a\n" +
					"OBJECT ENCODING to\nOBJECT ENCODING single3")
			}
		}
	}
	requireEqual(t, lines.String())
}

// Digests are equal for equal data, by which Valkey's own tests compare servers.
func TestDigest_IsValkeys(t *testing.T) {
	requireEqual(t, strings.Join([]string{
		"DEBUG DIGEST", "SET s hello", "SET n 12345", "SET e x EX 1000", "APPEND long " +
			strings.Repeat("x", 5000), "SETRANGE long 3000 yy",
		"RPUSH l a b 1", "SADD m 1 2 x", "SADD i 3 -5 01", "HSET h f v g w",
		"HPEXPIRE h 1000000 FIELDS 1 f",
		"ZADD z 1 a 0.1 b -inf c 1e22 d -0 e 3.14159265358979 f",
		"ZADD skip 0.3 " + strings.Repeat("x", 65) + " 12345678901234567 y -0 e 5e-324 f inf g",
		"DEBUG DIGEST-VALUE s n e long l m i h z skip none", "DEBUG DIGEST-VALUE", "DEBUG DIGEST x",
		"DEBUG DIGEST", "MOVE l 3", "MOVE m 7", "DEBUG DIGEST", "DEL s", "DEBUG DIGEST",
		"DEBUG LISTPACK m", "SELECT 7", "DEBUG LISTPACK m", "DEBUG LISTPACK none",
		"DEBUG DIGEST-VALUE m",
	}, "\n"))
}
