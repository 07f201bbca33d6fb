package durability

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	accountCount = 400
	saveCount    = 6
)

// transfer moves amounts between accounts until it is told to stop: each transaction keeps the sum.
func transfer(address string, random *rand.Rand, stop <-chan struct{}) error {
	conn, err := wire.Dial(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	account := func() string { return "account:" + strconv.Itoa(random.IntN(accountCount)) }
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		amount := strconv.Itoa(1 + random.IntN(100))
		var request []byte
		for _, words := range [][]string{
			{"MULTI"}, {"DECRBY", account(), amount},
			{"HINCRBY", "more", account(), amount}, {"EXEC"},
			{"SET", account() + ":other", strings.Repeat("x", random.IntN(300))},
		} {
			request = wire.AppendCommand(request, wire.Arguments(words...)...)
		}
		if err := conn.SendRaw(request); err != nil {
			return err
		}
		for range 5 {
			if _, err := conn.Receive(); err != nil {
				return err
			}
		}
	}
}

// sum is that of all accounts, which is the same at every moment.
func sum(t *testing.T, conn *wire.Conn) int64 {
	t.Helper()
	total := int64(0)
	add := func(reply wire.Reply) {
		value, _ := strconv.ParseInt(string(reply.Text), 10, 64)
		total += value
	}
	for index := range accountCount {
		add(do(t, conn, "GET", "account:"+strconv.Itoa(index)))
	}
	for _, value := range do(t, conn, "HVALS", "more").Items {
		add(value)
	}
	return total
}

// A snapshot that is taken beside transfers is of one moment: after a kill, the sum of all accounts
// is what it always was. Servers of both kinds load it.
func TestSnapshot_BesideTransfersIsOfOneMoment(t *testing.T) {
	directory := t.TempDir()
	random := seed(t)
	launch := func(kind instance.Kind) (*instance.Server, *wire.Conn) {
		t.Helper()
		server, err := instance.Launch(kind, directory, "--save", "")
		if err != nil {
			t.Fatal(err)
		}
		return server, server.Dial(t)
	}
	for range saveCount {
		server, conn := launch(instance.Subject)
		if before := sum(t, conn); before != 0 {
			t.Fatalf("loaded: the sum is %d", before)
		}
		stop := make(chan struct{})
		var group sync.WaitGroup
		for range 3 {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			group.Go(func() {
				if err := transfer(server.Address, own, stop); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
		do(t, conn, "BGSAVE")
		for strings.Contains(string(do(t, conn, "INFO", "persistence").Text),
			"rdb_bgsave_in_progress:1") {
			time.Sleep(time.Millisecond)
		}
		info := string(do(t, conn, "INFO", "persistence").Text)
		if !strings.Contains(info, "rdb_last_bgsave_status:ok") ||
			!strings.Contains(info, "rdb_saves:1\r\n") {
			t.Fatalf("%s", info)
		}
		close(stop)
		group.Wait()
		server.Kill()
	}
	server, conn := launch(instance.Valkey)
	if after := sum(t, conn); after != 0 {
		t.Fatalf("loaded by Valkey: the sum is %d", after)
	}
	if count := do(t, conn, "DBSIZE").Int(); count < accountCount/2 {
		t.Fatalf("%d keys", count)
	}
	server.Kill()
}
