package rpc

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/valyala/fasthttp"
)

// The data of neard's debug pages, enabled by rpc.enable_debug_rpc: GET /debug/api/NAME and
// /debug/client_config. A request for an unknown page gets HTTP 405, as in neard. If the pages are
// switched off, requests for them get the reply of an unknown path.

var debugPrefix = []byte("/debug/")

// debug answers a request for a debug page. what is the path after /debug/.
func (s *Server) debug(ctx *fasthttp.RequestCtx, what string) {
	if what == "client_config" {
		b, err := s.node.ClientConfig()
		s.debugged(ctx, b, err)
		return
	}
	name, ok := strings.CutPrefix(what, "api/")
	q, err := parseDebug(name, ctx.QueryArgs())
	if err != nil {
		ctx.SetStatusCode(http.StatusBadRequest)
		ctx.SetBodyString(err.Error())
		return
	}
	var b []byte
	if ok {
		b, err = s.node.Debug(q)
	}
	s.debugged(ctx, b, err)
}

func (s *Server) debugged(ctx *fasthttp.RequestCtx, b []byte, err error) {
	switch {
	case err != nil:
		s.log.WithError(err).Debug("debug page failed")
		ctx.SetStatusCode(http.StatusServiceUnavailable)
	case b == nil:
		ctx.SetStatusCode(http.StatusMethodNotAllowed)
	default:
		ctx.SetContentType(jsonType)
		ctx.Response.SetBodyRaw(b)
	}
}

// parseDebug parses NAME, NAME/epoch or NAME/height. block_status has a query instead.
func parseDebug(name string, args *fasthttp.Args) (*view.Debug, error) {
	name, rest, more := strings.Cut(name, "/")
	q := &view.Debug{Page: name}
	number := func(text string) (*uint64, error) {
		n, err := strconv.ParseUint(text, 10, 64)
		return &n, err
	}
	switch name {
	case "epoch_info", "epoch_info_light":
		if more {
			id, err := primitives.ParseHash(rest)
			if err != nil {
				return nil, err
			}
			q.Epoch = (*primitives.EpochID)(&id)
		}
	case "block_status":
		height := rest
		if text := args.Peek("starting_height"); len(text) > 0 {
			height, more = string(text), true
		}
		if more {
			n, err := number(height)
			if err != nil {
				return nil, err
			}
			q.Height = (*primitives.Height)(n)
		}
		if text := args.Peek("num_blocks"); len(text) > 0 {
			n, err := number(string(text))
			if err != nil {
				return nil, err
			}
			q.Blocks = n
		}
	default:
		if more {
			q.Page = name + "/" + rest // a page that does not exist
		}
	}
	return q, nil
}
