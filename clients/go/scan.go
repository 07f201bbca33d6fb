package tidemill

import (
	"context"
	"iter"
)

// Iterate walks all keys that match pattern ("" for all), with their errors: a failed step yields
// one error and ends. A key may come twice, as SCAN says.
func (c *Client) Iterate(ctx context.Context, pattern string) iter.Seq2[string, error] {
	return scanWith(ctx, c, scanArgs([]any{"SCAN"}, pattern))
}

// IterateMembers walks a collection with HSCAN, SSCAN or ZSCAN; items come as the server sends
// them, so fields alternate with values.
func (c *Client) IterateMembers(
	ctx context.Context, command, key, pattern string,
) iter.Seq2[string, error] {
	return scanWith(ctx, c, scanArgs([]any{command, key}, pattern))
}

// scanLine is a SCAN command whose cursor is put at an index.
type scanLine struct {
	args   []any
	cursor int
}

func scanArgs(start []any, pattern string) scanLine {
	line := scanLine{append(start, "0"), len(start)}
	if pattern != "" {
		line.args = append(line.args, "MATCH", pattern)
	}
	line.args = append(line.args, "COUNT", 256)
	return line
}

func scanWith(ctx context.Context, to interface {
	Do(context.Context, ...any) Reply
}, line scanLine) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		args := append([]any(nil), line.args...)
		for {
			parts, err := to.Do(ctx, args...).Array()
			if err == nil && len(parts) != 2 {
				err = ErrProtocol
			}
			var cursor string
			var items []string
			if err == nil {
				cursor, err = parts[0].Text()
			}
			if err == nil {
				items, err = parts[1].Strings()
			}
			if err != nil {
				yield("", err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if cursor == "0" {
				return
			}
			args[line.cursor] = cursor
		}
	}
}
