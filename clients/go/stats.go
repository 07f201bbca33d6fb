package tidemill

import (
	"math/bits"
	"time"
)

// PipeStats counts what the pipes to a server did since they were connected.
type PipeStats struct {
	Pipes      int           // one, more only after one was saturated
	Requests   uint64        // requests written
	Writes     uint64        // write calls
	Solo       uint64        // requests whose caller wrote and read by itself
	Reads      uint64        // read calls that completed a reply
	Yields     uint64        // turns given to other goroutines before a flush
	Pauses     uint64        // flushes that waited for company
	GatherTime time.Duration // total of those waits
	Pending    int           // requests not yet answered, when the statistics were taken
	Queued     int           // of these not yet written
	// BatchSizes counts writes by their number of requests: index i holds those with 2^(i-1) < n <=
	// 2^i.
	BatchSizes [18]uint64
}

// note counts one write of n requests.
func (s *PipeStats) note(n int) {
	if n == 0 {
		return
	}
	s.Writes++
	s.Requests += uint64(n)
	s.BatchSizes[min(bits.Len(uint(n-1)), len(s.BatchSizes)-1)]++
}

// snapshot reads the pipe's statistics.
func (p *pipe) snapshot() PipeStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := p.stats
	stats.Pipes = 1
	stats.BatchSizes[0] += stats.Solo
	stats.Pending, stats.Queued = p.gauge.pending, len(p.queue)
	return stats
}

func (s *PipeStats) add(other PipeStats) {
	s.Pipes += other.Pipes
	s.Requests += other.Requests
	s.Writes += other.Writes
	s.Solo += other.Solo
	s.Reads += other.Reads
	s.Yields += other.Yields
	s.Pauses += other.Pauses
	s.GatherTime += other.GatherTime
	s.Pending += other.Pending
	s.Queued += other.Queued
	for i := range s.BatchSizes {
		s.BatchSizes[i] += other.BatchSizes[i]
	}
}
