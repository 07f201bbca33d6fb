package linearizability

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"tidemill/tests/internal/wire"
)

// Limits of one round: long enough for operations to meet, short enough for porcupine to decide at
// once.
const (
	clientCount         = 6
	operationsOfEachMax = 10
	checkTimeout        = 20 * time.Second
	// pipelineOperationsMax is how many operations a client sends at once.
	pipelineOperationsMax = 4
	// burstOperationsMax is how many operations a client sends before it closes its side.
	burstOperationsMax = 2
)

// profile says which operations a round mixes.
type profile struct {
	name string
	// make returns the next operation's commands and whether they form a transaction.
	make func(c *client) (commands [][]string, transaction bool)
	// pause is the longest wait between two operations of one client; expiry needs rounds that
	// outlast deadlines.
	pause time.Duration
	// last is asked when all deadlines have passed.
	last []string
	// prepare is a command that gives each database its first key.
	prepare []string
	// pipelines is N where one in N operations is sent in a burst with others; 0: none.
	pipelines int
	// halfCloses is N where one in N operations is sent in a burst with others, behind which the
	// client shuts down its side; 0: none.
	halfCloses int
	// scrapes reads the metrics all the while, where the server has such a port.
	scrapes bool
	// evicts says that keys with deadlines may go at any time, each of them or none.
	evicts bool
}

// operationsOfEach is how many operations a client makes in a round. Those of a burst begin at one
// moment, and the checker's search grows with each of them: a round with such has half as many.
func (p profile) operationsOfEach() int {
	if p.halfCloses > 0 || p.pipelines > 0 {
		return operationsOfEachMax / 2
	}
	return operationsOfEachMax
}

// operationsOfBurst is how many operations are sent at once.
func (p profile) operationsOfBurst() int {
	if p.pipelines > 0 {
		return pipelineOperationsMax
	}
	return burstOperationsMax
}

// client is one connection and the part of the history that it made.
type client struct {
	number   int
	database int
	address  string
	conn     *wire.Conn
	random   *rand.Rand
	serial   int
	watching bool
	// script and declared are for the next operation: see operation.
	script   string
	declared []string
	queued   bool
	history  []porcupine.Operation
}

var expirySerial atomic.Int64

func (c *client) connect() error {
	conn, err := wire.Dial(c.address)
	if err != nil {
		return err
	}
	c.conn = conn
	_, err = conn.Do("SELECT", strconv.Itoa(c.database))
	return err
}

// unique makes a value that no other operation writes.
func (c *client) unique() string {
	c.serial++
	return fmt.Sprintf("v%d.%d", c.number, c.serial)
}

func (c *client) pick(from ...string) string { return from[c.random.IntN(len(from))] }

// run makes the client's part of one round.
func (c *client) run(mix profile, clock time.Time) error {
	operationCount := mix.operationsOfEach()
	for done := 0; done < operationCount; {
		if mix.pause > 0 {
			time.Sleep(time.Duration(c.random.Int64N(int64(mix.pause))))
		}
		if one := max(mix.halfCloses, mix.pipelines); one > 0 && c.random.IntN(one) == 0 {
			burst := make([]operation, min(mix.operationsOfBurst(), operationCount-done))
			for index := range burst {
				burst[index] = c.next(mix)
			}
			if err := c.performBurst(burst, mix.halfCloses > 0, clock); err != nil {
				return err
			}
			done += len(burst)
			continue
		}
		if err := c.perform(c.next(mix), clock); err != nil {
			return err
		}
		done++
	}
	return nil
}

// next makes the client's next operation.
func (c *client) next(mix profile) operation {
	commands, transaction := mix.make(c)
	asked := operation{
		client: c.number, database: c.database, commands: commands, transaction: transaction,
		script: c.script, declared: c.declared, queued: c.queued,
	}
	c.script, c.declared, c.queued = "", nil, false
	if setsDeadline(commands) {
		asked.expiry, asked.evictable = int(expirySerial.Add(1)), mix.evicts
	}
	return asked
}

func setsDeadline(commands [][]string) bool {
	for _, command := range commands {
		if command[0] == "SET" && len(command) > 4 || command[0] == "HSETEX" {
			return true
		}
	}
	return false
}

// perform sends one operation and records it. One in a hundred loses its connection right after
// sending.
func (c *client) perform(asked operation, clock time.Time) error {
	// Not while watching: WATCH dies with its connection, and the model knows of no connections.
	loses := !c.watching && !asked.transaction && c.random.IntN(100) == 0
	return c.send(asked, clock, loses)
}

// send sends one operation and records it, without its outcome if it loses the connection.
func (c *client) send(asked operation, clock time.Time, loses bool) error {
	request, replies := encode(asked)
	call := time.Since(clock)
	if err := c.conn.SendRaw(request); err != nil {
		return fmt.Errorf("%v: %w", asked, err)
	}
	outcome := unknown
	if loses {
		c.conn.Close()
		if err := c.connect(); err != nil {
			return err
		}
	} else {
		var last wire.Reply
		for range replies {
			var err error
			if last, err = c.conn.Receive(); err != nil {
				return fmt.Errorf("%v: %w", asked, err)
			}
		}
		outcome = normalize(asked, last)
	}
	done := time.Since(clock)
	c.history = append(c.history, entry(asked, outcome, call, done))
	if asked.expiry != 0 && !asked.evictable {
		c.history = append(c.history, deadline(asked, call, done, outcome))
	}
	return nil
}

// performBurst sends operations at once and takes their replies. If it is the client's last, the
// client closes its side behind them, and connects anew then: whatever a server accepted from such
// a client it executes and answers.
func (c *client) performBurst(burst []operation, isLast bool, clock time.Time) error {
	var request []byte
	counts := make([]int, len(burst))
	for index, asked := range burst {
		own, replies := encode(asked)
		request, counts[index] = append(request, own...), replies
	}
	call := time.Since(clock)
	if err := c.conn.SendRaw(request); err != nil {
		return err
	}
	if isLast {
		if err := c.conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			return err
		}
	}
	for index, asked := range burst {
		var last wire.Reply
		for range counts[index] {
			var err error
			if last, err = c.conn.Receive(); err != nil {
				return fmt.Errorf("operation %d of a burst of %d, %v: %w", index+1, len(burst),
					asked, err)
			}
		}
		c.history = append(c.history, entry(asked, normalize(asked, last), call, time.Since(clock)))
	}
	if !isLast {
		return nil
	}
	c.conn.Close()
	return c.connect()
}

// scriptSource runs commands that are given as their number of words and their words.
const scriptSource = `local replies, at = {}, 1
while ARGV[at] do
  local count = tonumber(ARGV[at])
  replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, at + count))
  at = at + count + 1
end
return replies`

func encodeScript(asked operation) []byte {
	words := []string{asked.script, scriptSource, strconv.Itoa(len(asked.declared))}
	words = append(words, asked.declared...)
	for _, command := range asked.commands {
		words = append(append(words, strconv.Itoa(len(command))), command...)
	}
	return wire.AppendCommand(nil, wire.Arguments(words...)...)
}

// inExec makes a transaction of one request.
func inExec(request []byte) (transaction []byte, replies int) {
	transaction = append(wire.AppendCommand(nil, []byte("MULTI")), request...)
	return wire.AppendCommand(transaction, []byte("EXEC")), 3
}

func encode(asked operation) (request []byte, replies int) {
	switch {
	case asked.queued:
		return inExec(encodeScript(asked))
	case asked.script != "":
		return encodeScript(asked), 1
	}
	if asked.transaction {
		request = wire.AppendCommand(request, []byte("MULTI"))
	}
	for _, command := range asked.commands {
		request = wire.AppendCommand(request, wire.Arguments(command...)...)
	}
	if asked.transaction {
		request = wire.AppendCommand(request, []byte("EXEC"))
		return request, len(asked.commands) + 2
	}
	return request, 1
}

// arena is a server and the clients that meet on it.
type arena struct {
	control  *wire.Conn
	clients  []*client
	stallers *stallers
}

func newArena(address string, seed uint64) (*arena, error) {
	control, err := wire.Dial(address)
	if err != nil {
		return nil, err
	}
	stalling, err := newStallers(address)
	if err != nil {
		return nil, err
	}
	a := &arena{control: control, stallers: stalling}
	for number := range clientCount {
		c := &client{
			number: number, address: address, random: rand.New(rand.NewPCG(seed, uint64(number))),
		}
		// One client looks from the other database: SWAPDB and COPY DB have a witness.
		c.database = number / (clientCount - 1)
		if err := c.connect(); err != nil {
			return nil, err
		}
		a.clients = append(a.clients, c)
	}
	return a, nil
}

func (a *arena) close() {
	a.control.Close()
	a.stallers.close()
	for _, c := range a.clients {
		c.conn.Close()
	}
}

// round empties the server, lets the clients run at once and returns the verdict on their history.
func (a *arena) round(mix profile) (porcupine.CheckResult, []porcupine.Operation, error) {
	if err := a.reset(); err != nil {
		return porcupine.Unknown, nil, err
	}
	if mix.pause > 0 {
		if err := a.stallers.fill(); err != nil {
			return porcupine.Unknown, nil, err
		}
		defer a.stallers.run()()
	}
	clock := time.Now()
	if mix.prepare != nil {
		// The first and the last client are of different databases.
		for _, c := range []*client{a.clients[0], a.clients[clientCount-1]} {
			asked := operation{
				client: c.number, database: c.database, commands: [][]string{mix.prepare},
			}
			// The operations rely on it, and one that lost its connection may come later than they.
			if err := c.send(asked, clock, false); err != nil {
				return porcupine.Unknown, nil, err
			}
		}
	}
	errs := make([]error, len(a.clients))
	var group sync.WaitGroup
	for index, c := range a.clients {
		group.Go(func() { errs[index] = c.run(mix, clock) })
	}
	group.Wait()
	if mix.pause > 0 {
		time.Sleep(expiryTTL + expiryLate)
		errs = append(errs, a.clients[0].perform(operation{commands: [][]string{mix.last}}, clock))
	}
	if err := errors.Join(errs...); err != nil {
		return porcupine.Unknown, nil, err
	}
	var history []porcupine.Operation
	for _, c := range a.clients {
		history = append(history, c.history...)
	}
	return porcupine.CheckOperationsTimeout(model, history, checkTimeout), history, nil
}

// reset empties the server and forgets what a client watched when the round before ended.
func (a *arena) reset() error {
	for _, c := range a.clients {
		c.watching, c.history = false, nil
		if _, err := c.conn.Do("UNWATCH"); err != nil {
			return err
		}
	}
	_, err := a.control.Do("FLUSHALL")
	return err
}
