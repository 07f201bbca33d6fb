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

// Elements that are equal as C strings are in no order, others are.
func TestSortedAsFound_OfCStrings(t *testing.T) {
	call := Call{Name: "sort_ro", Arguments: wire.Arguments("SORT_RO", "k", "ALPHA")}
	list := func(texts ...string) wire.Reply {
		reply := wire.Reply{Kind: '*'}
		for _, text := range texts {
			reply.Items = append(reply.Items, wire.Reply{Kind: '$', Text: []byte(text)})
		}
		return reply
	}
	for _, c := range []struct {
		a, b wire.Reply
		want bool
	}{
		{list("", "\x00", "b"), list("\x00", "", "b"), true},
		{list("a", "b"), list("b", "a"), false},
		{list("a\x00b", "a"), list("a\x00c", "a"), false},
	} {
		if sortedAsFound(call, c.a, c.b) != c.want {
			t.Errorf("%v and %v: want %v", c.a, c.b, c.want)
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
