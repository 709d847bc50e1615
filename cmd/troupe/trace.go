package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/flame"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/trace"
	"github.com/troupe-chain/troupe/internal/txtext"
)

func newTrace(a *app) *cobra.Command {
	var o struct {
		url, signed, block, flame string
		unsigned, raw             bool
		lines                     int
	}
	c := &cobra.Command{
		Use:   "trace [TX]",
		Short: "Show what a transaction did, or would do",
		Long: `Trace asks a running troupe node what the transaction with hash TX did. It prints the receipts as a
tree, and for each contract call its gas, its host function calls in order, the storage entries
that it read and wrote, and its logs. The node applies the chunks again, so trace works for
blocks whose state the node still has. With --signed, trace executes an unsent transaction on the
state of the head, or of --block, and discards the result. --flame writes a profile of the gas by
function of the contract and by host function. The profile opens in https://speedscope.app; a
file name that ends in .pb.gz gives a profile for go tool pprof.`,
		Example: `  troupe trace 9Kx4...
  troupe trace 9Kx4... --flame gas.json
  troupe trace --signed DgAAAHNl... --skip-signature-check
  troupe trace 9Kx4... --json | jq '.outcomes[].calls'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"profile": o.flame != ""}
			switch {
			case (len(args) == 1) == (o.signed != ""):
				return usagef("give either the hash of a transaction, or a transaction with --signed")
			case o.signed == "" && (o.block != "" || o.unsigned):
				return usagef("--block and --skip-signature-check need --signed")
			case cmd.Flags().Changed("lines") && o.raw:
				return usagef("--lines does not apply to --json, which prints everything")
			case o.signed != "":
				params["signed_tx_base64"], params["skip_signature_check"] = o.signed, o.unsigned
				if height, err := strconv.ParseUint(o.block, 10, 64); err == nil {
					params["block_id"] = height
				} else if o.block != "" {
					params["block_id"] = o.block
				}
			default:
				params["tx_hash"] = args[0]
			}
			place, err := a.nodeURL(o.url)
			if err != nil {
				return err
			}
			text, err := askRPC(cmd.Context(), place, "EXPERIMENTAL_trace_tx", params)
			if err != nil {
				return err
			}
			var report trace.Report
			if err := json.Unmarshal(text, &report); err != nil {
				return fmt.Errorf("%s answers with an invalid trace: %w", place, err)
			}
			if o.flame != "" {
				if err := writeFlame(o.flame, report.Profile); err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "profile: %s\n", o.flame)
			}
			if o.raw {
				report.Profile = nil
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(&report)
			}
			return report.WriteText(cmd.OutOrStdout(), o.lines)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.url, "url", "", "JSON-RPC of the node (default: rpc.addr of config.json in --home, else http://127.0.0.1:3030)")
	f.StringVar(&o.signed, "signed", "", "execute this transaction (borsh in base64) without sending it")
	f.StringVar(&o.block, "block", "", "with --signed: use the state after this block, by hash or height (default: the head)")
	f.BoolVar(&o.unsigned, "skip-signature-check", false, "with --signed: accept a transaction without a valid signature")
	f.StringVar(&o.flame, "flame", "", "write the gas of each contract function to this file, as a profile (.pb.gz: for pprof, else for speedscope)")
	f.IntVar(&o.lines, "lines", 40, "host function calls to print per contract call; 0: all")
	f.BoolVar(&o.raw, "json", false, "print the report as JSON")
	return c
}

// nodeURL returns the URL of a node's JSON-RPC: given or, if given is empty, the URL in the home
// folder's config.json.
func (a *app) nodeURL(given string) (string, error) {
	if given == "" {
		c, _, err := home.LoadConfig(a.home)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !a.homeGiven:
			given = "http://127.0.0.1:3030"
		case err != nil:
			return "", err
		case c.RPC == nil:
			return "", fmt.Errorf(`%s: "rpc" is null; if the node was started with --rpc-addr, give that address with --url`, filepath.Join(a.home, home.ConfigFile))
		default:
			given = daemon.URL(c.RPC.Addr)
		}
	}
	if !strings.Contains(given, "://") {
		given = "http://" + given
	}
	u, err := neturl.Parse(given)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usagef("--url is %q, must be http://host:port or https://host", given)
	}
	return given, nil
}

// writeFlame writes a speedscope profile. If path ends in .pb.gz, writeFlame converts the profile
// to pprof's format.
func writeFlame(path string, speedscope []byte) error {
	var b bytes.Buffer
	if strings.HasSuffix(path, ".pb.gz") {
		profiles, err := flame.ReadSpeedscope(bytes.NewReader(speedscope))
		if err != nil {
			return err
		}
		if err := flame.WritePprof(&b, profiles); err != nil {
			return err
		}
	} else {
		b.Write(speedscope)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// rpcError is an error that a node has replied.
type rpcError struct {
	URL, Kind, Cause, Message string
	Info, Data                json.RawMessage // members of the error object; nil: absent
}

// Error returns the node's URL, the name of the cause and the node's own text, on one line.
func (e *rpcError) Error() string {
	name, text := e.Cause, string(e.Data)
	if name == "" {
		name = e.Kind
	}
	if text == "" || text == "null" {
		text = e.Message
	}
	if name == "INVALID_TRANSACTION" {
		text = txtext.Failure(json.RawMessage(text))
	}
	return fmt.Sprintf("%s: %s: %s", e.URL, txtext.Line(name, 100), txtext.Line(text, 2000))
}

// maxReply is the maximum size of a node's reply in bytes.
const maxReply = 256 << 20

// rpcClient follows no redirects. A redirected POST would become a GET, or would send a transaction
// to a server that the user did not name.
var rpcClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// askRPC calls a method of a node's JSON-RPC and returns its result. If the reply is an error, the
// error is an *rpcError. The call takes at most a minute.
func askRPC(ctx context.Context, url, method string, params any) (json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, usagef("--url %q: %w", url, err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := rpcClient.Do(r)
	if err != nil {
		if e, ok := err.(*neturl.Error); ok { // the text of a *url.Error repeats the URL, so use the inner error
			err = e.Err
		}
		return nil, fmt.Errorf("no answer from %s: %w; check that the node is running, or give its address with --url", url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		return nil, fmt.Errorf("%s redirects to %s; give the address of the JSON-RPC with --url", url, txtext.Line(to, 200))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return nil, fmt.Errorf("the reply of %s breaks off after %d bytes: %w", url, len(text), err)
	}
	if len(text) > maxReply {
		return nil, fmt.Errorf("the reply of %s is larger than %d MiB", url, maxReply>>20)
	}
	var reply struct {
		Result json.RawMessage
		Error  *struct {
			Name    string
			Message string
			Data    json.RawMessage
			Cause   struct {
				Name string
				Info json.RawMessage
			}
		}
	}
	switch err := json.Unmarshal(text, &reply); {
	case err != nil:
		return nil, fmt.Errorf("%s answers with HTTP status %d and no JSON-RPC response, but %s; is it the address of a node's JSON-RPC?",
			url, resp.StatusCode, txtext.Line(string(text), 100))
	case reply.Error != nil:
		e := reply.Error
		return nil, &rpcError{URL: url, Kind: e.Name, Cause: e.Cause.Name, Info: e.Cause.Info, Data: e.Data, Message: e.Message}
	case reply.Result == nil:
		return nil, errors.New(url + " answers without a result")
	}
	return reply.Result, nil
}
