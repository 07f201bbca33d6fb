package main

import (
	"math/bits"
	"time"
)

// histogram is log-linear with 32 steps per octave: at most 3 % error per value.
type histogram struct {
	counts [40 * 32]uint32
	count  int
	sum    float64
}

func (h *histogram) record(d time.Duration) {
	ns := uint64(max(d, 1))
	shift := max(bits.Len64(ns)-6, 0)
	index := shift*32 + int(ns>>shift)
	h.counts[min(index, len(h.counts)-1)]++
	h.count++
	h.sum += float64(ns)
}

func (h *histogram) add(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.sum += other.sum
}

func (h *histogram) mean() float64 { return h.sum / float64(max(h.count, 1)) / 1000 }

func (h *histogram) percentile(p float64) float64 {
	left := int(p * float64(h.count))
	for i, n := range h.counts {
		if left -= int(n); left < 0 {
			shift := max(i/32-1, 0)
			return float64(uint64(i-shift*32)<<shift) / 1000
		}
	}
	return 0
}
