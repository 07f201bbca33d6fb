package tidemill

import "context"

func (c *Client) doOwn(ctx context.Context, r *request, info *commandInfo) Reply {
	return sendTo(ctx, c.node, r, info.flags, c.options)
}
