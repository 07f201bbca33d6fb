package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"
)

// The delay proxy gives a server on this machine the round-trip time of one far away: every byte is
// passed on half a round trip after it came, in order, without a limit on how many are under way.
// It is a process of its own, so that its work counts for neither side.

// delayedChunks bounds what is under way in one direction of one connection, in reads of at most 64
// KiB.
const delayedChunks = 4096

type delayed struct {
	data []byte
	due  time.Time
}

// runProxy prints its address and serves until its standard input ends.
func runProxy(target string, rtt time.Duration) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		near, err := listener.Accept()
		if err != nil {
			return err
		}
		far, err := net.Dial("tcp", target)
		if err != nil {
			log.Print(err)
			near.Close()
			continue
		}
		go delay(far, near, rtt/2)
		go delay(near, far, rtt/2)
	}
}

func delay(to, from net.Conn, by time.Duration) {
	chunks := make(chan delayed, delayedChunks)
	go func() {
		defer to.Close()
		sleeper := newSleeper()
		defer sleeper.close()
		for chunk := range chunks {
			sleeper.until(chunk.due)
			if _, err := to.Write(chunk.data); err != nil {
				from.Close()
			}
		}
	}()
	defer close(chunks)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			chunks <- delayed{append([]byte(nil), buffer[:n]...), time.Now().Add(by)}
		}
		if err != nil {
			return
		}
	}
}
