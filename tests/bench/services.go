package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	servicePipeline    = 100
	serviceKeys        = 10_000
	firstServiceKey    = 100_000
	serviceChannel     = "services"
	serviceSubscribers = 1_000
	foreignPatterns    = 10_000
	// ownRounds are rounds of comparisons with our own server for each round of the others: their
	// limits are of a few per cent.
	ownRounds = 3
	// trackedKeys are written at once, trackedBy the clients that are told of each.
	trackedKeys = 1_000
	trackedBy   = 100
)

var servicePayload = strings.Repeat("x", 32)

// serviceLoad is a load on both servers with the most CPU per operation that is wanted, Valkey's as
// 1.
type serviceLoad struct {
	name                             string
	limit                            float64
	connections, pipeline, listeners int
	// prelude are the first requests of each connection, beside those of a connection that goes on
	// for as long as the load does.
	prelude, beside [][]string
	request         func(number int) []string
}

var serviceLoads = []serviceLoad{
	{name: "PUBLISH to nobody", limit: 0.6, connections: smallConnectionCount,
		pipeline: servicePipeline, request: publish},
	{name: "PUBLISH to 1,000 subscribers", limit: 0.95, connections: 1, pipeline: 1,
		listeners: serviceSubscribers, request: publish},
	{name: "PUBLISH to 1,000 subscribers, 20 at a time", limit: 0.6, connections: 1, pipeline: 20,
		listeners: serviceSubscribers, request: publish},
	{name: "PUBLISH beside 10,000 patterns of other channels", limit: 0.02, connections: 1,
		pipeline: servicePipeline, beside: subscribeToPatterns(), request: publish},
	{name: "GET by clients that track", limit: 0.8, connections: smallConnectionCount,
		pipeline: servicePipeline, request: getServiceKey,
		prelude: [][]string{{"HELLO", "3"}, {"CLIENT", "TRACKING", "ON"}}},
}

func publish(int) []string { return []string{"PUBLISH", serviceChannel, servicePayload} }

func serviceKey(number int) string {
	return fmt.Sprintf("key:%d", firstServiceKey+number%serviceKeys)
}

func getServiceKey(number int) []string { return []string{"GET", serviceKey(number)} }

func setServiceKey(number int) []string {
	return []string{"SET", serviceKey(number), servicePayload}
}

func subscribeToPatterns() (requests [][]string) {
	for number := range foreignPatterns {
		requests = append(requests, []string{"PSUBSCRIBE", fmt.Sprintf("foreign:%05d:*", number)})
	}
	return requests
}

// measureServices judges pub/sub, client-side caching, events, access control and TLS.
func measureServices(report *Report, chosen settings) error {
	contenders := []contender{
		{name: "tidemill", kind: instance.Subject, directives: tidemillDirectives(1)},
		{name: "valkey", kind: instance.Valkey},
	}
	err := withServers(serverCPU, contenders, func(contenders []contender) error {
		for _, c := range contenders {
			if err := sendAll(c.server, eachKey(setServiceKey)); err != nil {
				return fmt.Errorf("fill %s: %w", c.name, err)
			}
		}
		for _, each := range serviceLoads {
			if !isChosenLoad(each.name) {
				continue
			}
			if err := measureService(report, chosen, contenders, each); err != nil {
				return fmt.Errorf("%s: %w", each.name, err)
			}
		}
		if err := measureTrackedWrites(report, chosen, contenders); err != nil {
			return err
		}
		return measureOwnServices(report, chosen, contenders[0].server)
	})
	if err != nil || !isChosenLoad(tlsLoads) {
		return err
	}
	return measureTLS(report, chosen)
}

func eachKey(request func(int) []string) (requests [][]string) {
	for number := range serviceKeys {
		requests = append(requests, request(number))
	}
	return requests
}

func measureService(
	report *Report, chosen settings, contenders []contender, each serviceLoad,
) error {
	for _, c := range contenders {
		if len(each.beside) == 0 {
			continue
		}
		conn, err := wire.Dial(c.server.Address)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := exchange(conn, each.beside); err != nil {
			return err
		}
	}
	shape, err := each.shape(contenders[0].server.Directory, chosen.Seconds/2)
	if err != nil {
		return err
	}
	ratio, err := inTurnsUntilDecided(report, each.name, chosen.PartRounds, contenders, shape,
		each.limit, func() spread {
			return report.ratio(each.name, "tidemill", "valkey", Sample.TotalUs)
		})
	if err != nil {
		return err
	}
	report.verdict(each.name+": CPU / Valkey's", each.limit, ratio)
	return nil
}

// shape writes the files of a load and describes its runs.
func (each serviceLoad) shape(directory string, seconds float64) (load, error) {
	shape := load{
		connections: each.connections, pipeline: each.pipeline, keys: serviceKeys,
		seconds: seconds, cpus: loadCPU, listeners: each.listeners,
		requests: filepath.Join(directory, "requests"),
	}
	var err error
	write := func(name string, requests [][]string) string {
		path := filepath.Join(directory, name)
		if err == nil {
			err = os.WriteFile(path, encoded(requests), 0o600)
		}
		return path
	}
	write("requests", eachKey(each.request))
	end := []string{"PING", "prelude-end"}
	if len(each.prelude) > 0 {
		shape.prelude = write("prelude", append(each.prelude[:len(each.prelude):len(each.prelude)],
			end))
	}
	if each.listeners > 0 {
		shape.listen = write("listen", [][]string{{"SUBSCRIBE", serviceChannel}, end})
	}
	return shape, err
}

func encoded(requests [][]string) (all []byte) {
	for _, words := range requests {
		all = wire.AppendCommand(all, wire.Arguments(words...)...)
	}
	return all
}

// exchange sends requests at once, each with one reply that is no error.
func exchange(conn *wire.Conn, requests [][]string) error {
	if err := conn.SendRaw(encoded(requests)); err != nil {
		return err
	}
	for _, words := range requests {
		if reply, err := conn.Receive(); err != nil || reply.IsError() {
			return fmt.Errorf("%.60q: %v %v", words, reply, err)
		}
	}
	return nil
}

// sendAll is exchange on a connection of its own.
func sendAll(server *instance.Server, requests [][]string) error {
	conn, err := wire.Dial(server.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	return exchange(conn, requests)
}

// measureTrackedWrites judges the CPU of writes to keys of which a hundred clients keep copies. The
// clients' reads, by which they begin to track anew, are not in it.
func measureTrackedWrites(report *Report, chosen settings, contenders []contender) error {
	const name = "SET tracked by 100 clients"
	if !isChosenLoad(name) {
		return nil
	}
	spent := map[string][]float64{}
	for round := range ownRounds * chosen.PartRounds {
		for turn := range contenders {
			c := contenders[(round+turn)%len(contenders)]
			us, err := trackedWrites(c.server)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", name, c.name, err)
			}
			spent[c.name] = append(spent[c.name], us)
		}
	}
	var ratios []float64
	for round, us := range spent["tidemill"] {
		ratios = append(ratios, us/spent["valkey"][round])
	}
	for _, c := range contenders {
		report.addFigure(name+": us of CPU", c.name, spreadOf(spent[c.name]).median)
	}
	report.verdict(name+": CPU / Valkey's", 0.7, spreadOf(ratios))
	return nil
}

// trackedWrites lets clients read keys and another one write them, and returns the CPU of one
// write, microseconds.
func trackedWrites(server *instance.Server) (float64, error) {
	reads, writes := make([][]string, trackedKeys), make([][]string, trackedKeys)
	for number := range trackedKeys {
		reads[number], writes[number] = getServiceKey(number), setServiceKey(number)
	}
	conns := make([]*wire.Conn, trackedBy)
	for index := range conns {
		conn, err := wire.Dial(server.Address)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		err = exchange(conn, [][]string{{"HELLO", "3"}, {"CLIENT", "TRACKING", "ON"}})
		if err == nil {
			err = exchange(conn, reads)
		}
		if err != nil {
			return 0, err
		}
		conns[index] = conn
	}
	before, err := instance.ScheduledTime(server.PID)
	if err != nil {
		return 0, err
	}
	if err := sendAll(server, writes); err != nil {
		return 0, err
	}
	for _, conn := range conns {
		if err := awaitInvalidations(conn, trackedKeys); err != nil {
			return 0, err
		}
	}
	after, err := instance.ScheduledTime(server.PID)
	return float64((after - before).Nanoseconds()) / 1000 / trackedKeys, err
}

// awaitInvalidations reads until a client was told of a number of keys.
func awaitInvalidations(conn *wire.Conn, keys int) error {
	for keys > 0 {
		push, err := conn.Receive()
		if err != nil {
			return err
		}
		if push.Kind != '>' || len(push.Items) != 2 ||
			!bytes.Equal(push.Items[0].Text, []byte("invalidate")) {
			return fmt.Errorf("%v instead of an invalidation", push)
		}
		keys -= len(push.Items[1].Items)
	}
	return nil
}

// ownVariant is a state of our server in which the same load is run.
type ownVariant struct {
	name string
	// set are commands before each run, prelude the first ones of each connection of the load.
	set, prelude [][]string
	// tracker lets a client keep copies of all keys while the load runs.
	tracker bool
}

var (
	readerRules = []string{"on", ">password", "-@all", "+@read", "+@write", "+@connection"}
	asReader    = [][]string{{"AUTH", "reader", "password"}}
)

func readerUser(keys string) []string {
	return append([]string{"ACL", "SETUSER", "reader", "reset", keys}, readerRules...)
}

// ownComparisons are what a service costs those who do not use it, or the users that it limits:
// variants and the first of them. The limit is a ratio, or nanoseconds more if isDifference.
var ownComparisons = []struct {
	name         string
	request      func(int) []string
	variants     []ownVariant
	limits       []float64
	isDifference []bool
}{
	{"GET beside a client that tracks", getServiceKey, []ownVariant{
		{name: "nobody tracks"},
		{name: "another client tracks", tracker: true},
	}, []float64{1.01}, []bool{false}},
	{"SET with events that nobody hears", setServiceKey, []ownVariant{
		{name: "no events", set: [][]string{{"CONFIG", "SET", "notify-keyspace-events", ""}}},
		{name: "events KEA", set: [][]string{{"CONFIG", "SET", "notify-keyspace-events", "KEA"}}},
	}, []float64{1.05}, []bool{false}},
	{"GET by a limited user", getServiceKey, []ownVariant{
		{name: "default user"},
		{name: "user of all keys", set: [][]string{readerUser("~*")}, prelude: asReader},
		{name: "user of ~key:*", set: [][]string{readerUser("~key:*")}, prelude: asReader},
	}, []float64{1.02, 15}, []bool{false, true}},
}

// measureOwnServices compares our server with itself.
func measureOwnServices(report *Report, chosen settings, server *instance.Server) error {
	for _, each := range ownComparisons {
		if !isChosenLoad(each.name) {
			continue
		}
		for round := range ownRounds * chosen.PartRounds {
			for turn := range each.variants {
				variant := each.variants[(round+turn)%len(each.variants)]
				sample, err := variant.run(server, each.request, chosen.Seconds/2)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", each.name, variant.name, err)
				}
				report.add(each.name, variant.name, sample)
			}
		}
		former := report.series(each.name, each.variants[0].name)
		for index, variant := range each.variants[1:] {
			series := report.series(each.name, variant.name)
			if each.isDifference[index] {
				report.verdict(each.name+": "+variant.name+", ns more", each.limits[index],
					differenceNs(series, former))
				continue
			}
			report.verdict(each.name+": "+variant.name+" / "+former.Server, each.limits[index],
				ratioOf(series, former, Sample.TotalUs))
		}
	}
	return nil
}

func differenceNs(left, right *Series) spread {
	var differences []float64
	for index := range min(len(left.Samples), len(right.Samples)) {
		us := left.Samples[index].TotalUs() - right.Samples[index].TotalUs()
		differences = append(differences, us*1000)
	}
	return spreadOf(differences)
}

func (v ownVariant) run(
	server *instance.Server, request func(int) []string, seconds float64,
) (Sample, error) {
	if err := sendAll(server, v.set); err != nil {
		return Sample{}, err
	}
	if v.tracker {
		conn, err := wire.Dial(server.Address)
		if err != nil {
			return Sample{}, err
		}
		defer conn.Close()
		tracks := [][]string{{"HELLO", "3"}, {"CLIENT", "TRACKING", "ON"}}
		if err := exchange(conn, append(tracks, eachKey(getServiceKey)...)); err != nil {
			return Sample{}, err
		}
	} else if err := awaitUntracked(server); err != nil {
		return Sample{}, err
	}
	shape, err := serviceLoad{
		connections: smallConnectionCount, pipeline: servicePipeline, prelude: v.prelude,
		request: request,
	}.shape(server.Directory, seconds)
	if err != nil {
		return Sample{}, err
	}
	return shape.run(server)
}

// awaitUntracked waits until nothing is left of clients that tracked.
func awaitUntracked(server *instance.Server) error {
	conn, err := wire.Dial(server.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		figures, err := infoOf(conn, "clients")
		if err != nil {
			return err
		}
		if figures["tracking_clients"] == 0 && figures["tracking_total_keys"] == 0 {
			return nil
		}
		time.Sleep(lookInterval)
	}
	return fmt.Errorf("keys are still tracked a minute behind the end of those who tracked them")
}
