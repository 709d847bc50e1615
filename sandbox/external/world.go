package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// World is one chain: the sandbox's own chain, or a chain that continues from a block of another
// world. Safe for concurrent use.
type World struct {
	// URL is the URL of the world's JSON-RPC, for other clients. The console is at /console below
	// that URL.
	URL string

	id   string   // empty: the sandbox's own chain, or the chain passed to Connect
	root string   // URL at which worlds are created
	of   *Sandbox // nil: another program controls the process
	http *http.Client

	mu     sync.Mutex
	nonces map[string]uint64 // last used nonces, by account and key
}

// maxReply is the maximum size of a node's reply in bytes.
const maxReply = 64 << 20

// rpcLimit is the time limit of a request whose context has no earlier deadline. The node's own
// limit is 10 s.
const rpcLimit = time.Minute

func newWorld(url string, of *Sandbox) *World {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	// A redirect is an error: following it would send a transaction to a server other than the one
	// that the caller named.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &World{URL: url, root: url, of: of, http: &http.Client{Timeout: rpcLimit, Transport: t, CheckRedirect: stay},
		nonces: map[string]uint64{}}
}

// Connect returns the chain of a running node.
func Connect(url string) *World { return newWorld(strings.TrimSuffix(url, "/"), nil) }

// RPCError means that the node rejected a request.
type RPCError struct {
	Method string
	Name   string          // name of the error, such as UNKNOWN_ACCOUNT or SANDBOX_REFUSED
	Info   json.RawMessage // details of the error as JSON
	Data   json.RawMessage // text, or failed transaction, as JSON
}

// maxText is the maximum number of bytes of a node's text in an error.
const maxText = 4000

// printable returns untrusted text for an error: at most limit bytes of it, with escapes for all
// characters that are not printable, except line breaks and tabs.
func printable(text string, limit int) string {
	cut := text[:min(len(text), limit)]
	var b strings.Builder
	for len(cut) > 0 {
		r, n := utf8.DecodeRuneInString(cut)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, cut[0])
		case r == '\n', r == '\t', unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			escaped := strconv.QuoteRuneToASCII(r)
			b.WriteString(escaped[1 : len(escaped)-1])
		}
		cut = cut[n:]
	}
	if len(text) > limit {
		fmt.Fprintf(&b, "... (%d bytes)", len(text))
	}
	return b.String()
}

// Error returns method, name and details.
func (e *RPCError) Error() string {
	more := e.Info
	if len(more) == 0 || string(more) == "{}" {
		more = e.Data
	}
	return fmt.Sprintf("sandbox: %s: %s %s", e.Method, printable(e.Name, 100), printable(string(more), maxText))
}

// RPC calls a method of the node and decodes the result into result. If result is nil, the reply's
// result is ignored.
func (w *World) RPC(ctx context.Context, method string, params, result any) error {
	return w.post(ctx, w.URL, method, params, result)
}

func (w *World) post(ctx context.Context, url, method string, params, result any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("sandbox: parameters of %s: %w", method, err)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("sandbox: %s: %w", method, err)
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := w.http.Do(q)
	if err != nil {
		return w.unreachable(ctx, method, err)
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(r.Body, maxReply+1))
	var reply struct {
		Result json.RawMessage
		Error  *struct {
			Cause struct {
				Name string
				Info json.RawMessage
			}
			Data json.RawMessage
		}
	}
	switch {
	case err != nil:
		return w.unreachable(ctx, method, err)
	case len(text) > maxReply:
		return fmt.Errorf("sandbox: %s: the reply has more than %d bytes", method, maxReply)
	}
	err = json.Unmarshal(text, &reply)
	switch {
	case r.StatusCode == http.StatusNotFound && w.id != "":
		return fmt.Errorf("sandbox: %s: world %s: %w", method, w.id, ErrEnded)
	case err != nil || reply.Error == nil && reply.Result == nil:
		return fmt.Errorf("sandbox: %s: HTTP %d is no reply of a NEAR node: %.200q", method, r.StatusCode, text)
	case reply.Error != nil:
		return &RPCError{method, reply.Error.Cause.Name, reply.Error.Cause.Info, reply.Error.Data}
	case result == nil:
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(reply.Result))
	d.UseNumber()
	if err := d.Decode(result); err != nil {
		return fmt.Errorf("sandbox: reply of %s: %w", method, err)
	}
	return nil
}

// endWait is the time that the process has to end after its connection broke. If the process ends
// in this time, the error says how.
const endWait = 200 * time.Millisecond

// unreachable returns the error for a failed connection.
func (w *World) unreachable(ctx context.Context, method string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("sandbox: %s: %w", method, context.Cause(ctx))
	}
	if w.of != nil {
		select {
		case <-w.of.ended:
			return fmt.Errorf("sandbox: %s: %w (%w)", method, w.of.end(), err)
		case <-time.After(endWait):
		}
	}
	return fmt.Errorf("sandbox: %s: %w: %w", method, ErrEnded, err)
}

// New creates a world that continues from the head of this one.
func (w *World) New(ctx context.Context) (*World, error) {
	var made struct{ ID, Path string }
	if err := w.RPC(ctx, "sandbox_new_world", map[string]any{"quiet": true}, &made); err != nil {
		return nil, err
	}
	if made.ID == "" || !strings.HasPrefix(made.Path, "/") {
		return nil, fmt.Errorf("sandbox: reply of sandbox_new_world: id %.80q or path %.80q has no valid form", made.ID, made.Path)
	}
	return &World{URL: w.root + made.Path, id: made.ID, root: w.root, of: w.of, http: w.http, nonces: map[string]uint64{}}, nil
}

// ForTest creates a world as New does. The world ends after the test and its subtests. If ForTest
// cannot create the world, the test fails at once.
func (w *World) ForTest(t TB) *World {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	x, err := w.New(ctx)
	if err != nil {
		t.Fatalf("create a world: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		if err := x.End(ctx); err != nil {
			t.Errorf("end the world: %v", err)
		}
	})
	return x
}

// End ends a world and all worlds that continue from that world. The sandbox's own chain ends by
// Close.
func (w *World) End(ctx context.Context) error {
	if w.id == "" {
		return nil
	}
	return w.post(ctx, w.root, "sandbox_drop_world", map[string]any{"id": w.id}, nil)
}

// Mine produces blocks.
func (w *World) Mine(ctx context.Context, blocks uint64) error {
	return w.RPC(ctx, "sandbox_mine", map[string]any{"blocks": blocks}, nil)
}

// Advance advances the clock. The next block has the new time.
func (w *World) Advance(ctx context.Context, d time.Duration) error {
	return w.RPC(ctx, "sandbox_set_clock", map[string]any{"advance_nanosec": fmt.Sprint(max(d, 0).Nanoseconds())}, nil)
}

// Create creates an account with a balance and one full access key, the key of Named. If the
// account exists, the account gets this balance and this key, and keeps its contract, its data and
// its existing keys.
func (w *World) Create(ctx context.Context, id string, amount *big.Int) (*Account, error) {
	a := Named(id)
	account := map[string]any{"locked": "0", "code_hash": encode58(make([]byte, 32)), "storage_usage": 100}
	var records []any
	var refused *RPCError
	err := w.query(ctx, map[string]any{"request_type": "view_account", "account_id": id}, &account)
	if err != nil && !(errors.As(err, &refused) && refused.Name == "UNKNOWN_ACCOUNT") {
		return nil, err
	}
	if account == nil {
		return nil, fmt.Errorf("sandbox: reply of query: account %s is null", id)
	}
	for _, k := range []string{"block_hash", "block_height", "storage_paid_at"} {
		delete(account, k)
	}
	_, _, has, err := w.accessKey(ctx, a)
	switch {
	case err != nil:
		return nil, err
	case !has:
		// As in nearcore: 40 bytes plus the lengths of key (33) and value (9).
		usage, err := strconv.ParseUint(fmt.Sprint(account["storage_usage"]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("sandbox: storage_usage of %s: %w", id, err)
		}
		account["storage_usage"] = usage + 82
		records = append(records, map[string]any{"AccessKey": map[string]any{"account_id": id, "public_key": a.PublicKey(),
			"access_key": map[string]any{"nonce": 0, "permission": "FullAccess"}}})
	}
	account["amount"], account["version"] = amount.String(), "V1"
	records = append([]any{map[string]any{"Account": map[string]any{"account_id": id, "account": account}}}, records...)
	return a, w.RPC(ctx, "sandbox_patch_state", map[string]any{"records": records}, nil)
}

// Balance returns the liquid balance of an account at the head.
func (w *World) Balance(ctx context.Context, id string) (*big.Int, error) {
	var account struct{ Amount string }
	if err := w.query(ctx, map[string]any{"request_type": "view_account", "account_id": id}, &account); err != nil {
		return nil, err
	}
	amount, ok := new(big.Int).SetString(account.Amount, 10)
	if !ok || amount.Sign() < 0 || amount.BitLen() > 128 {
		return nil, fmt.Errorf("sandbox: the balance of %s is %.80q, must be a decimal number", id, account.Amount)
	}
	return amount, nil
}

// accessKey returns the nonce of an account's key and the hash of the head. has is false if the
// account does not have the key.
func (w *World) accessKey(ctx context.Context, a *Account) (nonce uint64, head string, has bool, err error) {
	var key struct {
		Nonce uint64
		Block string `json:"block_hash"`
		Error string
	}
	err = w.query(ctx, map[string]any{"request_type": "view_access_key", "account_id": a.ID, "public_key": a.PublicKey()}, &key)
	var refused *RPCError
	if errors.As(err, &refused) && (refused.Name == "UNKNOWN_ACCESS_KEY" || refused.Name == "UNKNOWN_ACCOUNT") ||
		err == nil && key.Error != "" {
		return 0, "", false, nil
	}
	return key.Nonce, key.Block, err == nil, err
}

func (w *World) query(ctx context.Context, params map[string]any, result any) error {
	params["finality"] = "optimistic"
	return w.RPC(ctx, "query", params, result)
}

// View calls a method without a transaction and decodes the method's result as JSON into the
// argument into; nil: View ignores the result.
func (w *World) View(ctx context.Context, contract, method string, args, into any) error {
	raw, err := encodeArgs(args)
	if err != nil {
		return err
	}
	var out struct {
		Result []uint16
		Logs   []string
		Error  string
	}
	if err := w.query(ctx, map[string]any{"request_type": "call_function", "account_id": contract,
		"method_name": method, "args_base64": raw}, &out); err != nil {
		var refused *RPCError
		if errors.As(err, &refused) && refused.Name == "CONTRACT_EXECUTION_ERROR" {
			return &CallError{What: fmt.Sprintf("view %s of %s", method, contract), Failure: string(refused.Info)}
		}
		return err
	}
	if out.Error != "" {
		return &CallError{What: fmt.Sprintf("view %s of %s", method, contract), Failure: out.Error, Logs: out.Logs}
	}
	if into == nil {
		return nil
	}
	text := make([]byte, len(out.Result))
	for i, c := range out.Result {
		if c > math.MaxUint8 {
			return fmt.Errorf("sandbox: result of view %s of %s contains %d, which is not a byte", method, contract, c)
		}
		text[i] = byte(c)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("sandbox: result of view %s of %s: %w", method, contract, err)
	}
	return nil
}
