package linearizability

import (
	"math"
	"strings"
	"sync"
	"time"

	"tidemill/tests/internal/wire"
)

// Workers read the clock once per iteration. Connections that keep each iteration busy for some
// milliseconds make the clocks of the commands behind them old, each worker's by another time.
const (
	stallerCount = 4
	stallFor     = 2 * time.Millisecond
	probeLength  = 300
)

// stallers are connections that ask for long computations on keys of their own.
type stallers struct {
	conns []*wire.Conn
	// length of the texts that are compared, in bytes: LCS takes time in proportion to its square.
	length int
}

func newStallers(address string) (*stallers, error) {
	s := &stallers{length: probeLength}
	for range stallerCount {
		conn, err := wire.Dial(address)
		if err != nil {
			return nil, err
		}
		s.conns = append(s.conns, conn)
	}
	if err := s.fill(); err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := s.conns[0].Do("LCS", "stall1", "stall2", "LEN"); err != nil {
		return nil, err
	}
	factor := math.Sqrt(stallFor.Seconds() / time.Since(began).Seconds())
	s.length = int(min(max(factor*probeLength, 50), 3000))
	return s, nil
}

// fill writes the texts anew, after the server was emptied.
func (s *stallers) fill() error {
	_, err := s.conns[0].Do("MSET", "stall1", strings.Repeat("a", s.length), "stall2",
		strings.Repeat("b", s.length))
	return err
}

// run keeps the workers busy until the returned function is called.
func (s *stallers) run() (stop func()) {
	stopped := make(chan struct{})
	var group sync.WaitGroup
	for _, conn := range s.conns {
		group.Go(func() {
			for {
				select {
				case <-stopped:
					return
				default:
				}
				if _, err := conn.Do("LCS", "stall1", "stall2", "LEN"); err != nil {
					return
				}
			}
		})
	}
	return func() {
		close(stopped)
		group.Wait()
	}
}

func (s *stallers) close() {
	for _, conn := range s.conns {
		conn.Close()
	}
}
