package tidemill

import "context"

// Hook observes operations. Start is called before an operation with its command name and the
// number of commands in it (more than one for batches and transactions); it may return a changed
// context and must return a function that is called with the outcome. Hooks run on the caller's
// goroutine, but for the end of Async and Go, which runs where their callback does and must be as
// quick; there a panic in it is contained and logged.
type Hook interface {
	Start(ctx context.Context, name string, commands int) (context.Context, func(err error))
}

// observed runs under a hook when there is one.
func observed(
	ctx context.Context, hook Hook, name string, commands int, run func(context.Context) Reply,
) Reply {
	if hook == nil {
		return run(ctx)
	}
	return observe(ctx, hook, name, commands, run)
}

func observe(
	ctx context.Context, hook Hook, name string, commands int, run func(context.Context) Reply,
) Reply {
	ctx, end := hook.Start(ctx, name, commands)
	reply := run(ctx)
	end(reply.Err())
	return reply
}
