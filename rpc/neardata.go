package rpc

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// The layout of neardata (github.com/fastnear/neardata-server): one document per height, read by
// GET under /v0/. A request for a height whose block will soon be produced waits for that block, so
// that an indexer can walk from one height to the next. Each GET is a call of
// troupe_block_document, so all limits of calls apply.

const (
	documents0 = "/v0/"
	// farAhead is the maximum number of heights above the last block for which a request may wait,
	// as in neardata.
	farAhead = 10
	// highest is the largest height that neardata accepts.
	highest = 1_000_000_000_000_000
)

// documentQuery are the parameters of troupe_block_document.
type documentQuery struct {
	height primitives.Height
	final  bool
	part   view.DocumentPart
}

var blockDocument = Method[documentQuery]{
	Name: "troupe_block_document",
	Doc: `Returns the block at a height in the format of neardata: that of troupe_streamer_message, and for each executed
receipt the transaction that it originates from. The result is null if the chain has no block at that height.
For a height up to 10 above the head, the request waits for the block. The same documents are available by GET:
/v0/block/HEIGHT and /v0/block_opt/HEIGHT, with an optional suffix /headers, /chunk/SHARD, /shard/SHARD or
/code/HASH (code contained in the block's transactions and receipts). /v0/last_block/final,
/v0/last_block/optimistic and /v0/first_block redirect to them.`,
	Faults: []*Fault{UnknownBlock, TooFarAhead, Timeout}, Waits: true,
	Own: true, Parse: parseDocument,
	Handle: func(c *call, b []byte, q *documentQuery) ([]byte, error) {
		at, err := c.node.AwaitHeight(expired, q.final, q.height)
		if q.height > at && q.height-at > farAhead {
			return b, TooFarAhead.because(
				"the chain is at "+strconv.FormatUint(uint64(at), 10)+", and at most 10 heights more are waited for",
				strconv.AppendUint([]byte(`"height":`), uint64(at), 10),
			)
		}
		if err != nil {
			if _, err = c.node.AwaitHeight(c.ctx, q.final, q.height); errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, view.ErrTimeout) {
				return b, Timeout.because("the block has not come in time", nil)
			}
		}
		if err != nil {
			return b, internal(reachedLimits, err)
		}
		if err := c.turn(); err != nil {
			return b, err
		}
		if err := c.expect(documentKey(*q)); err != nil {
			return b, err
		}
		document, err := c.node.BlockDocument(c.ctx, q.height, q.part)
		if fault, ok := blockFault(err, "BLOCK"); ok {
			return b, fault
		}
		if err != nil {
			return b, internal(reachedLimits, err)
		}
		if b, err = c.reserve(b, len(document)); err != nil {
			return b, err
		}
		return append(b, document...), nil
	},
}

// expired is a context that has ended, for requests that must not wait.
var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// documentKey is the key of a document in replySizes.
type documentKey documentQuery

func parseDocument(v val) (q documentQuery, err error) {
	var final, part int
	var shard *primitives.ShardID
	var code *primitives.Hash
	if err := readStruct(v, "BlockDocumentRequest",
		field{"height", false, into((*uint64)(&q.height), readUint64)},
		field{"finality", true, into(&final, func(v val) (int, error) { return readName(v, documentFinalities) })},
		field{"part", true, into(&part, func(v val) (int, error) { return readName(v, documentParts) })},
		field{"shard_id", true, func(v val) error {
			id, err := readShard(v)
			shard = &id
			return err
		}},
		field{"code_hash", true, func(v val) error {
			hash, err := readHash(v)
			code = &hash
			return err
		}}); err != nil {
		return q, err
	}
	q.final, q.part.Kind = documentFinalities[final] == "final", view.DocumentKind(part)
	ofShard := q.part.Kind == view.DocumentChunk || q.part.Kind == view.DocumentShard
	switch {
	case q.part.Kind == view.DocumentCode && code == nil:
		return q, errors.New("missing field `code_hash`")
	case q.part.Kind != view.DocumentCode && code != nil:
		return q, errors.New("`code_hash` is allowed only with the part `code`")
	case ofShard && shard == nil:
		return q, errors.New("missing field `shard_id`")
	case !ofShard && shard != nil:
		return q, errors.New("`shard_id` is allowed only with the parts `chunk` and `shard`")
	case ofShard:
		q.part.Shard = *shard
	case code != nil:
		q.part.Code = *code
	}
	return q, nil
}

// The names of finalities and of parts. The first of each list is the default. view.DocumentKind is
// the index into documentParts.
var (
	documentFinalities = []string{"final", "optimistic"}
	documentParts      = []string{"block", "headers", "chunk", "shard", "code"}
)

// document answers GET and HEAD below /v0/. path does not contain the API key.
func (s *Server) document(ctx *fasthttp.RequestCtx, path string, key *apiKey) {
	if s.opts.RequireAPIKey && key == nil {
		s.unauthorized(ctx)
		return
	}
	call, ok := documentCall(path[len(documents0):])
	// serveGet checks the rate limit, because no method runs.
	if !ok || call.height > highest || s.beforeGenesis(call.height) {
		s.serveGet(ctx, key, false, func() { s.noDocument(ctx, path, ok, call.height) })
		return
	}
	x := s.newExchange(ctx)
	x.key = key
	if x.peer != nil {
		x.peer.state.Store(connServed)
	}
	b, status := x.answer(nil, call.body(), "")
	result, found := bytes.CutPrefix(b, []byte(`{"jsonrpc":"2.0","result":`))
	if !found {
		s.documentFault(ctx, b, status)
		return
	}
	result = bytes.TrimSuffix(result, []byte(`,"id":0}`))
	ctx.SetContentType(jsonType)
	if call.final { // final blocks never change, so clients may cache them
		ctx.Response.Header.Set("Cache-Control", "public, max-age=86400")
	}
	ctx.Response.SetBodyRaw(x.pack(ctx, result))
}

func (s *Server) beforeGenesis(height primitives.Height) bool {
	_, genesis, err := s.node.Block(context.Background(), view.BlockRef{Kind: view.RefGenesis})
	return err == nil && height < genesis.Header.Height
}

// noDocument answers a request for a path without a document: with a redirect or an error. ok is
// whether the path names a height.
func (s *Server) noDocument(ctx *fasthttp.RequestCtx, path string, ok bool, height primitives.Height) {
	switch to, leads := s.redirectOf(path[len(documents0):]); {
	case ok && height > highest:
		s.refuseDocument(ctx, http.StatusNotFound, []string{"Block height is too high", "BLOCK_HEIGHT_TOO_HIGH"})
	case ok:
		s.refuseDocument(ctx, http.StatusNotFound, []string{"Block height is before the genesis", "BLOCK_HEIGHT_TOO_LOW"})
	case !leads:
		s.refuseDocument(ctx, http.StatusBadRequest, nil)
	case to == "":
		ctx.SetStatusCode(http.StatusServiceUnavailable)
	default:
		whole := string(ctx.Path())
		to = whole[:len(whole)-len(path)] + documents0 + to
		if q := ctx.URI().QueryString(); len(q) > 0 {
			to += "?" + string(q)
		}
		ctx.Response.Header.Set("Location", to)
		ctx.SetStatusCode(http.StatusFound)
	}
}

// documentFault converts the error reply of a call to neardata's form.
func (s *Server) documentFault(ctx *fasthttp.RequestCtx, reply []byte, status int) {
	switch {
	case bytes.Contains(reply, []byte(`"name":"TOO_FAR_AHEAD"`)):
		s.refuseDocument(ctx, http.StatusNotFound, []string{"The block is too far in the future", "BLOCK_DOES_NOT_EXIST"})
	case bytes.Contains(reply, []byte(`"name":"UNKNOWN_BLOCK"`)):
		s.refuseDocument(ctx, http.StatusNotFound,
			[]string{"The block is not kept any more: /v0/first_block leads to the first that is", "BLOCK_NOT_KEPT"})
	default:
		ctx.SetContentType(jsonType)
		if status == http.StatusOK {
			status = http.StatusInternalServerError
		}
		ctx.SetStatusCode(status)
		ctx.Response.SetBodyRaw(reply)
	}
}

// refuseDocument answers with an error in neardata's form. why has the error's text and type. If
// why is nil, the error is that an argument is invalid.
func (s *Server) refuseDocument(ctx *fasthttp.RequestCtx, status int, why []string) {
	ctx.SetContentType(jsonType)
	ctx.SetStatusCode(status)
	if why == nil {
		ctx.SetBodyString(`"Invalid argument"`)
		return
	}
	b := view.AppendString([]byte(`{"error":`), why[0])
	ctx.SetBody(append(view.AppendString(append(b, `,"type":`...), why[1]), '}'))
}

// redirectOf returns the path to which an alias leads; empty if that block does not exist now. ok
// is false if the path is not an alias.
func (s *Server) redirectOf(path string) (to string, ok bool) {
	what, more, _ := strings.Cut(path, "/")
	ref, tree := view.BlockRef{Kind: view.RefEarliest}, "block/"
	switch {
	case what == "first_block" && more == "":
	case what == "last_block":
		var finality string
		finality, more, _ = strings.Cut(more, "/")
		switch finality {
		case "final":
			ref.Kind = view.RefFinal
		case "optimistic":
			ref.Kind, tree = view.RefOptimistic, "block_opt/"
		default:
			return "", false
		}
	default:
		return "", false
	}
	_, block, err := s.node.Block(context.Background(), ref)
	if err != nil {
		return "", true
	}
	to = tree + strconv.FormatUint(uint64(block.Header.Height), 10)
	if more != "" {
		to += "/" + more
	}
	return to, true
}

// documentCall parses block[_opt]/HEIGHT[/headers | /chunk/SHARD | /shard/SHARD | /code/HASH].
func documentCall(path string) (q documentQuery, ok bool) {
	parts := strings.Split(path, "/")
	if len(parts) < 2 || len(parts) > 4 || parts[0] != "block" && parts[0] != "block_opt" {
		return q, false
	}
	height, err := strconv.ParseUint(parts[1], 10, 64)
	q.height, q.final = primitives.Height(height), parts[0] == "block"
	if err != nil || len(parts) == 2 {
		return q, err == nil
	}
	switch parts[2] {
	case "headers":
		q.part.Kind = view.DocumentHeaders
		return q, len(parts) == 3
	case "chunk":
		q.part.Kind = view.DocumentChunk
	case "shard":
		q.part.Kind = view.DocumentShard
	case "code":
		q.part.Kind = view.DocumentCode
		if len(parts) == 4 {
			q.part.Code, err = primitives.ParseHash(parts[3])
		}
		return q, len(parts) == 4 && err == nil
	default:
		return q, false
	}
	if len(parts) != 4 {
		return q, false
	}
	shard, err := strconv.ParseUint(parts[3], 10, 64)
	q.part.Shard = primitives.ShardID(shard)
	return q, err == nil
}

// body returns the JSON-RPC request that reads the document.
func (q *documentQuery) body() []byte {
	b := append([]byte(nil), `{"jsonrpc":"2.0","id":0,"method":"troupe_block_document","params":{"height":`...)
	b = strconv.AppendUint(b, uint64(q.height), 10)
	if !q.final {
		b = append(b, `,"finality":"optimistic"`...)
	}
	switch q.part.Kind {
	case view.DocumentWhole:
		return append(b, "}}"...)
	case view.DocumentHeaders:
		return append(b, `,"part":"headers"}}`...)
	case view.DocumentChunk:
		b = append(b, `,"part":"chunk"`...)
	case view.DocumentShard:
		b = append(b, `,"part":"shard"`...)
	case view.DocumentCode:
		return append(append(append(b, `,"part":"code","code_hash":"`...), q.part.Code.String()...), `"}}`...)
	}
	return append(strconv.AppendUint(append(b, `,"shard_id":`...), uint64(q.part.Shard), 10), "}}"...)
}
