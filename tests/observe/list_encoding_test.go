package observe

import (
	"fmt"
	"strings"
	"testing"
)

// `LSET` counts its element as one more, and afterwards half of what is limited makes a listpack
// again.
func TestListEncoding_AfterLsetIsValkeys(t *testing.T) {
	var lines strings.Builder
	for _, limit := range []int{0, 1, 2, 3, 5, 100, -1, -2} {
		fmt.Fprintf(&lines, "CONFIG SET list-max-listpack-size %d\n", limit)
		for count := range 7 {
			for _, bytes := range []int{1, 60, 4000, 8000, 9000} {
				fmt.Fprintf(&lines, "DEL l\nRPUSH l%s\nOBJECT ENCODING l\n",
					strings.Repeat(" x", count+1))
				fmt.Fprintf(&lines, "LSET l 0 %s\nOBJECT ENCODING l\n", strings.Repeat("v", bytes))
				fmt.Fprintf(&lines, "LSET l 0 y\nOBJECT ENCODING l\n")
			}
		}
	}
	requireEqual(t, lines.String())
}
