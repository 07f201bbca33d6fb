package tidemill

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
)

// Script is a server-side script that is sent once and then called by its digest.
type Script struct {
	source string
	digest string
}

// NewScript prepares a script; nothing is sent.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source, hex.EncodeToString(sum[:])}
}

// Run calls the script by digest, and by source when the server does not know it.
func (s *Script) Run(ctx context.Context, client interface {
	Do(context.Context, ...any) Reply
}, keys []string, args ...any) Reply {
	line := make([]any, 0, 3+len(keys)+len(args))
	line = append(line, "EVALSHA", s.digest, len(keys))
	for _, key := range keys {
		line = append(line, key)
	}
	line = append(line, args...)
	reply := client.Do(ctx, line...)
	if errors.Is(reply.Err(), ServerCode("NOSCRIPT")) {
		line[0], line[1] = "EVAL", s.source
		return lastOutcome(reply, client.Do(ctx, line...), commandWrites, 1)
	}
	return reply
}
