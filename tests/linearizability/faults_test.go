package linearizability

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidemill/tests/internal/wire"
)

// A fault answers a command otherwise than the server behind the proxy would. It returns false for
// commands that it leaves alone.
type fault func(p *passage, command []string) (wire.Reply, bool)

// faultyProxy breaks one promise of a right server, so that the checker can be seen to notice.
type faultyProxy struct {
	listener net.Listener
	backend  string
	fault    fault

	mutex sync.Mutex
	// remembered holds old replies for faults that answer with stale data.
	remembered map[string]wire.Reply
	calls      int
}

// passage is one client's way through the proxy.
type passage struct {
	*faultyProxy
	server *wire.Conn
	// queue holds the commands since MULTI, nil outside of a transaction.
	queue [][]string
}

// gap is how long a fault leaves the server between the halves of what should be one step.
const gap = 300 * time.Microsecond

func startFaultyProxy(backend string, broken fault) (*faultyProxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &faultyProxy{
		listener: listener, backend: backend, fault: broken, remembered: map[string]wire.Reply{},
	}
	go func() {
		for {
			socket, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(socket)
		}
	}()
	return p, nil
}

func (p *faultyProxy) serve(socket net.Conn) {
	defer socket.Close()
	server, err := wire.Dial(p.backend)
	if err != nil {
		return
	}
	defer server.Close()
	way := &passage{faultyProxy: p, server: server}
	in := bufio.NewReader(socket)
	for {
		request, err := wire.ReadReply(in)
		if err != nil {
			return
		}
		command := make([]string, len(request.Items))
		for index, item := range request.Items {
			command[index] = string(item.Text)
		}
		reply, handled := p.fault(way, command)
		if !handled {
			if reply, err = server.Do(command...); err != nil {
				return
			}
		}
		if _, err := socket.Write(wire.AppendReply(nil, reply)); err != nil {
			return
		}
	}
}

func (p *passage) ask(words ...string) wire.Reply {
	reply, err := p.server.Do(words...)
	if err != nil {
		return wire.Reply{Kind: '-', Text: []byte("ERR " + err.Error())}
	}
	return reply
}

var okReply = wire.Reply{Kind: '+', Text: []byte("OK")}

// staleReads answers every other GET from what the key held some time ago.
func staleReads(p *passage, command []string) (wire.Reply, bool) {
	if command[0] != "GET" {
		return wire.Reply{}, false
	}
	fresh := p.ask(command...)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	stale, known := p.remembered[command[1]]
	p.remembered[command[1]] = fresh
	if !known {
		return fresh, true
	}
	return stale, true
}

// tornMSET writes its keys one after the other.
func tornMSET(p *passage, command []string) (wire.Reply, bool) {
	if command[0] != "MSET" {
		return wire.Reply{}, false
	}
	for index := 1; index < len(command); index += 2 {
		p.ask("SET", command[index], command[index+1])
		if !strings.HasPrefix(command[index], paddingPrefix) {
			time.Sleep(gap)
		}
	}
	return okReply, true
}

// tornMGET reads its keys one after the other.
func tornMGET(p *passage, command []string) (wire.Reply, bool) {
	if command[0] != "MGET" {
		return wire.Reply{}, false
	}
	reply := wire.Reply{Kind: '*'}
	for _, key := range command[1:] {
		reply.Items = append(reply.Items, p.ask("GET", key))
		time.Sleep(gap)
	}
	return reply, true
}

// lostUpdates makes INCR a read and a write.
func lostUpdates(p *passage, command []string) (wire.Reply, bool) {
	if command[0] != "INCR" {
		return wire.Reply{}, false
	}
	number := p.ask("GET", command[1]).Int() + 1
	time.Sleep(gap)
	p.ask("SET", command[1], strconv.FormatInt(number, 10))
	return wire.Reply{Kind: ':', Text: strconv.AppendInt(nil, number, 10)}, true
}

// doublePops answers BLPOP with an element before removing it.
func doublePops(p *passage, command []string) (wire.Reply, bool) {
	if command[0] != "BLPOP" {
		return wire.Reply{}, false
	}
	seen := p.ask("LINDEX", command[1], "0")
	if seen.Null {
		return wire.Reply{}, false
	}
	time.Sleep(gap)
	p.ask("LREM", command[1], "1", string(seen.Text))
	key := wire.Reply{Kind: '$', Text: []byte(command[1])}
	return wire.Reply{Kind: '*', Items: []wire.Reply{key, seen}}, true
}

// tornLMOVE leaves a moment in which the element is nowhere.
func tornLMOVE(p *passage, command []string) (wire.Reply, bool) {
	if command[0] != "LMOVE" {
		return wire.Reply{}, false
	}
	element := p.ask(command[3][:1]+"POP", command[1])
	time.Sleep(gap)
	if element.Kind == '$' && !element.Null {
		p.ask(command[4][:1]+"PUSH", command[2], string(element.Text))
	}
	return element, true
}

// tornSMOVE removes the member before it adds it elsewhere.
func tornSMOVE(p *passage, command []string) (wire.Reply, bool) {
	if command[0] != "SMOVE" || command[1] == command[2] {
		return wire.Reply{}, false
	}
	removed := p.ask("SREM", command[1], command[3])
	time.Sleep(gap)
	if removed.Kind == ':' && removed.Int() == 1 {
		p.ask("SADD", command[2], command[3])
	}
	return removed, true
}

// tornSUNION reads its sets one after the other.
func tornSUNION(p *passage, command []string) (wire.Reply, bool) {
	if command[0] != "SUNION" {
		return wire.Reply{}, false
	}
	reply, seen := wire.Reply{Kind: '*'}, map[string]bool{}
	for _, key := range command[1:] {
		for _, member := range p.ask("SMEMBERS", key).Items {
			if !seen[string(member.Text)] {
				reply.Items = append(reply.Items, member)
			}
			seen[string(member.Text)] = true
		}
		time.Sleep(gap)
	}
	return reply, true
}

// tornSUNIONSTORE stores what it has read some time ago.
func tornSUNIONSTORE(p *passage, command []string) (wire.Reply, bool) {
	if command[0] != "SUNIONSTORE" {
		return wire.Reply{}, false
	}
	members := p.ask(append([]string{"SUNION"}, command[2:]...)...).Items
	time.Sleep(gap)
	p.ask("DEL", command[1])
	if len(members) > 0 {
		words := []string{"SADD", command[1]}
		for _, member := range members {
			words = append(words, string(member.Text))
		}
		p.ask(words...)
	}
	return wire.Reply{Kind: ':', Text: strconv.AppendInt(nil, int64(len(members)), 10)}, true
}

// tornRename deletes first and writes later.
func tornRename(p *passage, command []string) (wire.Reply, bool) {
	if command[0] != "RENAME" || command[1] == command[2] {
		return wire.Reply{}, false
	}
	copied := p.ask("COPY", command[1], command[2], "REPLACE")
	if copied.Int() == 0 {
		return wire.Reply{}, false
	}
	time.Sleep(gap)
	p.ask("DEL", command[1])
	return okReply, true
}

// deafWatch forgets what it was asked to watch.
func deafWatch(_ *passage, command []string) (wire.Reply, bool) {
	return okReply, command[0] == "WATCH"
}

// tornExec runs the commands of a transaction one after the other.
func tornExec(p *passage, command []string) (wire.Reply, bool) {
	switch {
	case command[0] == "MULTI":
		p.queue = [][]string{}
		return okReply, true
	case command[0] == "EXEC":
		reply := wire.Reply{Kind: '*'}
		for _, queued := range p.queue {
			reply.Items = append(reply.Items, p.ask(queued...))
			time.Sleep(gap)
		}
		p.queue = nil
		return reply, true
	case p.queue != nil:
		p.queue = append(p.queue, command)
		return wire.Reply{Kind: '+', Text: []byte("QUEUED")}, true
	}
	return wire.Reply{}, false
}

// tornLoneExec runs a transaction of one MSET key by key, and any other as it should be.
func tornLoneExec(p *passage, command []string) (wire.Reply, bool) {
	switch {
	case command[0] == "MULTI":
		p.queue = [][]string{}
		return okReply, true
	case command[0] == "EXEC":
		queue := p.queue
		p.queue = nil
		reply := wire.Reply{Kind: '*'}
		if len(queue) == 1 {
			answer, torn := tornMSET(p, queue[0])
			if !torn {
				answer = p.ask(queue[0]...)
			}
			reply.Items = append(reply.Items, answer)
			return reply, true
		}
		p.ask("MULTI")
		for _, queued := range queue {
			p.ask(queued...)
		}
		return p.ask("EXEC"), true
	case p.queue != nil:
		p.queue = append(p.queue, command)
		return wire.Reply{Kind: '+', Text: []byte("QUEUED")}, true
	}
	return wire.Reply{}, false
}

// ghostKeys answers RANDOMKEY with a key from the middle of a transaction now and then.
func ghostKeys(p *passage, command []string) (wire.Reply, bool) {
	if command[0] != "RANDOMKEY" {
		return wire.Reply{}, false
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.calls++
	return wire.Reply{Kind: '$', Text: []byte("brief")}, p.calls%10 == 0
}

// undead brings an expired key back for one read.
func undead(p *passage, command []string) (wire.Reply, bool) {
	if command[0] == "SET" && strings.EqualFold(command[len(command)-2], "PX") {
		p.mutex.Lock()
		p.remembered[command[1]] = wire.Reply{Kind: '$', Text: []byte(command[2])}
		p.mutex.Unlock()
		return wire.Reply{}, false
	}
	if command[0] != "GET" {
		return wire.Reply{}, false
	}
	fresh := p.ask(command...)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	old, known := p.remembered[command[1]]
	if fresh.Null && known {
		delete(p.remembered, command[1])
		return old, true
	}
	return fresh, true
}

// immortal ignores deadlines.
func immortal(p *passage, command []string) (wire.Reply, bool) {
	if command[0] == "SET" && len(command) > 4 {
		return p.ask(command[:3]...), true
	}
	return wire.Reply{}, false
}

// persistsDead answers PERSIST as a server would that judges by a clock behind the one that found
// the key expired.
func persistsDead(p *passage, command []string) (wire.Reply, bool) {
	if command[0] == "SET" {
		return undead(p, command)
	}
	if command[0] != "PERSIST" {
		return wire.Reply{}, false
	}
	reply := p.ask(command...)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	old, known := p.remembered[command[1]]
	if reply.Int() != 0 || !known || !p.ask("GET", command[1]).Null {
		return reply, true
	}
	p.ask("SET", command[1], string(old.Text))
	delete(p.remembered, command[1])
	return wire.Reply{Kind: ':', Text: []byte("1")}, true
}

// undeadFields brings an expired field back for one read.
func undeadFields(p *passage, command []string) (wire.Reply, bool) {
	if command[0] == "HSETEX" {
		p.mutex.Lock()
		p.remembered[command[6]] = wire.Reply{Kind: '$', Text: []byte(command[7])}
		p.mutex.Unlock()
		return wire.Reply{}, false
	}
	if command[0] != "HGET" {
		return wire.Reply{}, false
	}
	fresh := p.ask(command...)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	old, known := p.remembered[command[2]]
	if fresh.Null && known {
		delete(p.remembered, command[2])
		return old, true
	}
	return fresh, true
}

// tracksTransaction tells whether a command is one of a transaction, whose commands a fault leaves
// alone.
func (p *passage) tracksTransaction(command []string) bool {
	switch command[0] {
	case "MULTI":
		p.queue = [][]string{}
	case "EXEC":
		p.queue = nil
	}
	return p.queue != nil
}

// tornFlush deletes some keys before the others.
func tornFlush(p *passage, command []string) (wire.Reply, bool) {
	if !p.tracksTransaction(command) && command[0] == "FLUSHALL" {
		p.ask("DEL", "f1", "f2")
		time.Sleep(gap)
	}
	return wire.Reply{}, false
}

// lostAppends answers every third APPEND without carrying it out.
func lostAppends(p *passage, command []string) (wire.Reply, bool) {
	if p.tracksTransaction(command) || command[0] != "APPEND" {
		return wire.Reply{}, false
	}
	p.mutex.Lock()
	p.calls++
	isLost := p.calls%3 == 0
	p.mutex.Unlock()
	if !isLost {
		return wire.Reply{}, false
	}
	length := p.ask("STRLEN", command[1]).Int() + int64(len(command[2]))
	return wire.Reply{Kind: ':', Text: strconv.AppendInt(nil, length, 10)}, true
}
