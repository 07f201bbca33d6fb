package tidemill

import "time"

// Tunables. Those a user may want to set are in [Options] and take their default from here.
const (
	defaultDialTimeout  = 5 * time.Second
	defaultIOTimeout    = 10 * time.Second
	defaultConnectWait  = 3 * time.Second
	defaultPingInterval = 30 * time.Second
	defaultBackoffMin   = 8 * time.Millisecond
	defaultBackoffMax   = 1 * time.Second

	// queueRequestsDefault bounds the requests of one pipe that are queued or in flight.
	queueRequestsDefault = 16384

	// flushRequests ends gathering: past it a larger write saves the server nearly nothing, while
	// it would work on the first requests if it had them.
	flushRequests = 128
	// flushRequestsMin is the smallest half of a closed loop that is flushed alone.
	flushRequestsMin = 8
	// gatherBytes is what the requests of a flush and their replies should have together in a
	// closed loop; gatherAnswered the number of requests over which that is averaged.
	gatherBytes    = 128 << 10
	gatherAnswered = 512
	// flushBytes ends gathering by size, and bounds how much is copied for one write.
	flushBytes = 64 << 10
	// writePieceBytes is the most that one system call writes of a large request; see writeOut.
	writePieceBytes = 1 << 20
	// gatherYieldsMax bounds the turns a flush gives to runnable goroutines.
	gatherYieldsMax = 16

	// gatherPause is how long a flush waits for company when it is expected.
	gatherPause = 60 * time.Microsecond
	// gatherGainMin is how many requests must be expected in a pause, gatherCompanyMin how many of
	// them from callers not already in step.
	gatherGainMin    = 0.75
	gatherCompanyMin = 0.05
	// gatherShareMin is the smallest part of the requests that company must be: below it the pause
	// would cost a closed loop more than it saves the others.
	gatherShareMin = 0.02
	// gatherStep is the longest time from a reply to the next request of the same caller that
	// counts as at once, where rounds cannot tell.
	gatherStep = 60 * time.Microsecond
	// gatherMemory is the busy time over which company is averaged, gatherWallMemory the time for
	// all arrivals.
	gatherMemory     = 2 * time.Millisecond
	gatherWallMemory = 10 * time.Millisecond

	// soloStreak is how many operations in a row must have been alone before a caller does its own
	// reading; soloBytes the largest request it may write itself, small enough for any socket
	// buffer.
	soloStreak = 4
	soloBytes  = 8 << 10

	// readBufferBytes is what a connection reads into at first. Reads that fill it double it, up to
	// readBufferMaxBytes. Strings of which more than readDirectBytes are missing are read without
	// it.
	readBufferBytes    = 32 << 10
	readBufferMaxBytes = 128 << 10
	readDirectBytes    = 32 << 10
	// writeBufferKeepBytes and wireKeepBytes bound what is kept for reuse after a large request.
	writeBufferKeepBytes = 128 << 10
	wireKeepBytes        = 16 << 10

	// watchInterval is how often a connection is looked at: idle ones get a reader to notice their
	// end, stuck ones are closed, silent ones are pinged.
	watchInterval = 100 * time.Millisecond

	// Limits on replies: more than a server can legally send is a protocol error, not an
	// allocation.
	replyLineMax  = replyBulkMax // an error reply of a script, for example
	replyBulkMax  = 512 << 20
	replyItemsMax = 64 << 20
	replyDepthMax = 128
	// replyItemsAhead bounds what a claimed length reserves before items arrive.
	replyItemsAhead = 1024
	replyBulkAhead  = 1 << 20
)
