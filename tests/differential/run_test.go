package differential

import (
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// Replies to a sequence must not depend on the server having noticed that the connection before was
// closed.
func TestEndpoint_IsAloneAtItsServer(t *testing.T) {
	list := Call{Name: "client|list", Arguments: wire.Arguments("CLIENT", "LIST")}
	for _, kind := range []instance.Kind{instance.Subject, instance.Valkey} {
		server := instance.Start(t, kind)
		for round := range 100 {
			for range 20 {
				before, err := wire.Dial(server.Address)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := before.Do("PING"); err != nil {
					t.Fatal(err)
				}
				defer before.Close()
				if round%2 == 0 {
					before.Close()
				} else if _, err := before.Do("QUIT"); err != nil {
					t.Fatal(err)
				}
			}
			endpoint := Endpoint{Address: server.Address}
			answers, err := endpoint.Run(Sequence{Protocol: 2, Calls: []Call{list}})
			if err != nil {
				t.Fatal(err)
			}
			endpoint.conn.Close()
			if count := strings.Count(answers.Replies[0].String(), " laddr="); count != 1 {
				t.Fatalf("%s, round %d: %d connections", kind, round, count)
			}
		}
	}
}

// Elements that are equal as C strings are in no order, others are, unless BY asks for none.
func TestSortedAsFound(t *testing.T) {
	const alpha = "SORT_RO k ALPHA"
	list := func(texts ...string) wire.Reply {
		reply := wire.Reply{Kind: '*'}
		for _, text := range texts {
			reply.Items = append(reply.Items, wire.Reply{Kind: '$', Text: []byte(text)})
		}
		return reply
	}
	for _, c := range []struct {
		request string
		a, b    wire.Reply
		want    bool
	}{
		{alpha, list("", "\x00", "b"), list("\x00", "", "b"), true},
		{alpha, list("a", "b"), list("b", "a"), false},
		{alpha, list("a\x00b", "a"), list("a\x00c", "a"), false},
		{"SORT_RO k BY none BY w*", list("a", "b"), list("b", "a"), true},
		{"SORT_RO k BY w* BY none", list("a", "b"), list("b", "a"), true},
		{"SORT_RO k BY w* BY v*", list("a", "b"), list("b", "a"), false},
	} {
		words := strings.Fields(c.request)
		call := Call{Name: "sort_ro", Arguments: wire.Arguments(words...)}
		if sortedAsFound(call, c.a, c.b) != c.want {
			t.Errorf("%s: %v and %v: want %v", c.request, c.a, c.b, c.want)
		}
	}
}

// A list may be called otherwise only behind a call that takes elements out of one, inside a
// transaction too.
func TestCompare_EncodingsOfListsThatShrank(t *testing.T) {
	calls := func(lines ...string) (calls []Call) {
		for _, line := range lines {
			words := strings.Fields(line)
			name := strings.ToLower(words[0])
			if name == "object" {
				name += "|encoding"
			}
			calls = append(calls, Call{Name: name, Arguments: wire.Arguments(words...)})
		}
		return calls
	}
	text := func(text string) wire.Reply { return wire.Reply{Kind: '$', Text: []byte(text)} }
	answers := func(count int, last wire.Reply) Answers {
		return Answers{Replies: append(make([]wire.Reply, count-1), last)}
	}
	const push, trim, ask = "RPUSH k a", "LTRIM k 0 3", "OBJECT ENCODING k"
	for _, c := range []struct {
		calls        []Call
		ours, theirs string
		want         bool
	}{
		{calls(push, trim, ask), "listpack", "quicklist", true},
		{calls(push, trim, ask), "quicklist", "listpack", true},
		{calls(push, trim, ask), "quicklist", "hashtable", false},
		{calls(push, ask, trim, ask), "listpack", "quicklist", true},
		{calls(push, ask), "listpack", "quicklist", false},
		{calls(push, ask), "quicklist", "listpack", false},
	} {
		count := len(c.calls)
		sequence := Sequence{Calls: c.calls}
		found := compare(sequence, answers(count, text(c.theirs)), answers(count, text(c.ours)))
		if (found == nil) != c.want {
			t.Errorf("%v: ours %s, theirs %s: %v", c.calls, c.ours, c.theirs, found)
		}
	}
	for _, c := range []struct {
		queued []Call
		want   bool
	}{{calls(trim, ask), true}, {calls(push, ask), false}} {
		sequence := Sequence{Calls: append(c.queued, Call{Name: "exec"})}
		both := func(last string) Answers {
			queued := wire.Reply{Kind: '+', Text: []byte("QUEUED")}
			exec := wire.Reply{Kind: '*', Items: []wire.Reply{{Kind: '+'}, text(last)}}
			return Answers{Replies: []wire.Reply{queued, queued, exec}}
		}
		found := compare(sequence, both("quicklist"), both("listpack"))
		if (found == nil) != c.want {
			t.Errorf("queued %v: %v", c.queued, found)
		}
	}
}

// checkLeftOut compares which calls the generator leaves out.
func checkLeftOut(t *testing.T, calls map[string]bool) {
	for text, want := range calls {
		words := strings.Fields(text)
		call := Call{Name: strings.ToLower(words[0]), Arguments: wire.Arguments(words...)}
		if found := showsFault(call, false); found != want {
			t.Errorf("%q is left out: %v", text, found)
		}
	}
}

// Polygons that lie around a pole are left out, all others are compared.
func TestMiddleIsBeyondGrid_OfPolygonsAroundAPole(t *testing.T) {
	checkLeftOut(t, map[string]bool{
		"GEOSEARCH g0 bypolygon 3 0 80 120 80 -120 80":                      true,
		"GEOSEARCH g0 bypolygon 3 0 -80 120 -80 -120 -80":                   true,
		"GEOSEARCH g0 bypolygon 3 0 80 10 80 5 89":                          false,
		"GEOSEARCH g0 bypolygon 4 -10 -10 10 -10 10 10 -10 10":              false,
		"GEOSEARCH g0 bypolygon 5 155 63 -4 37 -137 8 130 -4 -6 15 COUNT 1": true,
		"GEOSEARCH g0 bypolygon 3 0 80 120 80 -120 80 ASC":                  true,
		"GEOSEARCH g0 bypolygon 3":                                          false,
		"GEOSEARCH g0 bypolygon 4 0 80 120 80 -120 80 nonsense 80 WITHDIST": true,
	})
}

// Members of one distance are left out where they may be many and their order is asked for.
func TestOrdersOthers_OfKeysWithoutPlaces(t *testing.T) {
	checkLeftOut(t, map[string]bool{
		"GEOSEARCH g0 FROMLONLAT 0 80 BYBOX 1 1 m ASC": false,
		"GEOSEARCH z0 FROMLONLAT 0 80 BYBOX 1 1 m":     false,
		"GEOSEARCH z0 FROMLONLAT 0 80 BYBOX 1 1 m ASC": true,
		"GEOSEARCH": false,
		"GEOSEARCHSTORE z0 g1 FROMMEMBER a BYRADIUS 1 m COUNT 1":  false,
		"GEOSEARCHSTORE g1 any FROMMEMBER a BYRADIUS 1 m count 1": true,
		"GEORADIUSBYMEMBER_RO {tag}g2 a 1 m DESC":                 false,
		"GEORADIUSBYMEMBER_RO z0 a 1 m DESC":                      true,
	})
}

// A scan of what Valkey calls a listpack ends in one step.
func TestScanned_OfListpacks(t *testing.T) {
	step := func(cursor string) wire.Reply {
		return wire.Reply{Kind: '*', Items: []wire.Reply{
			{Kind: '$', Text: []byte(cursor)}, {Kind: '*'},
		}}
	}
	encoding := Call{Name: "object|encoding", Arguments: wire.Arguments("OBJECT", "ENCODING", "k")}
	scan := Call{Name: "hscan", Arguments: wire.Arguments("HSCAN", "k", "0", "COUNT", "1")}
	sequence := Sequence{Calls: []Call{encoding, scan}}
	for _, c := range []struct {
		encoding, valkey, subject string
		want                      bool
	}{
		{"listpack", "0", "0", true},
		{"listpack", "0", "5", false},
		{"hashtable", "0", "5", true},
		{"hashtable", "7", "5", true},
	} {
		answers := func(cursor string) Answers {
			name := wire.Reply{Kind: '$', Text: []byte(c.encoding)}
			return Answers{Replies: []wire.Reply{name, step(cursor)}}
		}
		found := compare(sequence, answers(c.valkey), answers(c.subject))
		if isEqual := found == nil; isEqual != c.want {
			t.Errorf("%+v: %v", c, found)
		}
	}
}
