package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/bench/load"
	"github.com/troupe-chain/troupe/engine/badchunk"
	"github.com/troupe-chain/troupe/internal/capture"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// input is a file that a command reads. Whatever is in it, the command ends with an error or does
// its work: it does not panic.
type input struct {
	command string // its path, without the program's name
	file    string // in the home folder; each run has a copy of it
	args    string // $FILE is the file
	packed  bool   // it is gzip, which a mutation would break
	seeds   func(testing.TB) [][]byte
}

// inputs are all files that commands read, except the store. run reads the files of
// validate-config with the same code, and log_config.json in addition.
var inputs = map[string]input{
	"recording":       {"verify", "chain.jsonl", "verify $FILE", false, recordings},
	"failed chunk":    {"verify", "chunk.json.gz", "verify $FILE", true, failedChunks},
	"epoch config":    {"verify", "epoch_configs/86.json", "validate-config", false, constant(`{}`, `{"epoch_length":10,"num_block_producer_seats":5}`)},
	"config":          {"validate-config", "config.json", "validate-config", false, ofHome("config.json")},
	"genesis":         {"validate-config", "genesis.json", "validate-config", false, ofHome("genesis.json")},
	"node key":        {"validate-config", "node_key.json", "validate-config", false, ofHome("node_key.json")},
	"validator key":   {"validate-config", "validator_key.json", "validate-config", false, ofHome("validator_key.json")},
	"log config":      {"run", "log_config.json", "", false, constant(`{"rust_log":"info,network=debug","verbose_module":"engine"}`)},
	"given genesis":   {"init", "given.json", "--home $FILE.home init --genesis $FILE", false, ofHome("genesis.json")},
	"key":             {"keys show", "key.json", "keys show $FILE", false, ofHome("node_key.json")},
	"frames":          {"net decode", "net.jsonl", "net decode $FILE", false, frames},
	"summary":         {"net decode", "net.jsonl", "net decode --summary $FILE", false, frames},
	"conflicts":       {"net conflicts", "net.jsonl", "net conflicts $FILE", false, frames},
	"report":          {"bench compare", "a.json", "bench compare $FILE $FILE", false, reports},
	"paying key":      {"bench load", "key.json", "bench load --target rpc --url http://127.0.0.1:1 --rate 1 --key-file $FILE", false, constant(`{}`)},
	"rpc key":         {"bench rpc", "key.json", "bench rpc --url http://127.0.0.1:1 --key-file $FILE", false, constant(`{}`)},
	"snapshot":        {"snapshot restore", "snap/snapshot.json", "--home $FILE.home snapshot restore snap", false, constant(`{}`, `{"format":1,"chain_id":"x","files":[{"name":"a","size":1}]}`)},
	"dumped config":   {"view-state dump-state", "config.json", "view-state dump-state", false, ofHome("config.json")},
	"dumped genesis":  {"view-state dump-state", "genesis.json", "view-state dump-state", false, ofHome("genesis.json")},
	"checked genesis": {"check", "genesis.json", "check", false, ofHome("genesis.json")},
	"copied genesis":  {"snapshot create", "genesis.json", "snapshot create $FILE.snap", false, ofHome("genesis.json")},
	"traced config":   {"trace", "config.json", "trace --url http://127.0.0.1:1 9BxYzh1yNBsnBSsWxbPmP3xZ3sjtXkXgnKf2C9CPJ6jC", false, ofHome("config.json")},
	"watched config":  {"top", "config.json", "top --url http://127.0.0.1:1 --once", false, ofHome("config.json")},
	"signing key":     {"send", "key.json", "send near 1 --as test.near --url http://127.0.0.1:1 --key $FILE", false, ofHome("validator_key.json")},
	"home's key":      {"account create", "validator_key.json", "account create a.test.near --url http://127.0.0.1:1", false, ofHome("validator_key.json")},
	"arguments":       {"call", "args.json", "call near x @$FILE --as near --url http://127.0.0.1:1", false, constant(`{}`, `{"a":[1,"b"]}`)},
	"view arguments":  {"view", "args.json", "view near x @$FILE --url http://127.0.0.1:1", false, constant(`{}`)},
	"code":            {"deploy", "code.wasm", "deploy near $FILE --url http://127.0.0.1:1", false, constant("\x00asm\x01\x00\x00\x00")},
	"localnet key":    {"localnet run", "node0/config.json", "localnet run", false, ofHome("config.json")},
}

// reads are commands that read no file but those of another command.
var reads = map[string]string{
	"bench arrival": "", "bench node": "", "bench shard": "", "bench start": "", "bench state": "", "localnet": "", "net capture": "", "keys new": "", "keys implicit": "", "keys universal": "", "sim": "", "version": "", compilerName: "",
	"doctor":  "as validate-config",
	"stream":  "log_config.json; the cursor is read by indexer, whose own fuzzing it has",
	"history": "config.json, as top", "net state-parts": "config.json and genesis.json, as validate-config",
	"account": "config.json, as trace", "tx": "as account", "block": "as account", "rpc": "as account",
	"config": "", "config schema": "", "dev": "none of a user's",
	"bench": "", "keys": "", "net": "", "snapshot": "", "view-state": "", "view-state view-chain": "config.json, as dump-state", "view-state epoch-info": "as view-chain", "view-state apply-range": "as view-chain", "view-state check-history": "as view-chain; its own state file", "completion": "", "help": "",
}

// TestEachReadingCommandIsFuzzed: every command is either in the table of fuzzed files or listed as
// one that reads no file.
func TestEachReadingCommandIsFuzzed(t *testing.T) {
	fuzzed := map[string]bool{}
	for _, x := range inputs {
		fuzzed[x.command] = true
	}
	known := map[string]bool{}
	var walk func(c *cobra.Command, path string)
	walk = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			at := strings.TrimSpace(path + " " + sub.Name())
			known[at] = true
			_, none := reads[at]
			if sub.Deprecated == "" && !isAbsent(sub) && fuzzed[at] == none {
				t.Errorf("%s: in inputs: %v, listed as reading no file: %v", at, fuzzed[at], none)
			}
			walk(sub, at)
		}
	}
	walk(newRoot(&app{}), "")
	for name := range fuzzed {
		if !known[name] {
			t.Errorf("%s is no command", name)
		}
	}
}

func isAbsent(c *cobra.Command) bool { return c.Short == "Not available in troupe" }

// runInput runs the command of an input on a copy of a home in which the file is this.
func runInput(t testing.TB, x input, home string, data []byte) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(home)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, x.file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if x.packed {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(data)
		_ = z.Close()
		data = b.Bytes()
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if x.args == "" {
		if c, err := readLogConfig(dir); err == nil && c.RustLog != nil {
			_, _, _ = newFilter(*c.RustLog, true, "")
		}
		return
	}
	args := []string{"--home", dir}
	for _, a := range strings.Fields(x.args) {
		a = strings.ReplaceAll(a, "$FILE", path)
		if a == "snap" {
			a = filepath.Join(dir, a)
		}
		args = append(args, a)
	}
	execute(args, strings.NewReader(""), io.Discard, io.Discard)
}

// TestCommandsSurviveDamagedInputs runs every command on its files as they are, cut short, and with
// each part replaced.
func TestCommandsSurviveDamagedInputs(t *testing.T) {
	home := newHome(t, "")
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		t.Run(name, func(t *testing.T) {
			x := inputs[name]
			for _, seed := range append(x.seeds(t), nil, []byte("{"), []byte("[]"), []byte("null"), []byte(`{"a":null}`)) {
				runInput(t, x, home, seed)
				runInput(t, x, home, seed[:len(seed)/2])
				for _, part := range [][2]string{{`:"`, `:null,"x":"`}, {`[`, `[null,`}, {`:{`, `:[],"x":{`}, {`:1`, `:-1`}, {`":`, `":99999999999999999999,"x":`}} {
					if at := bytes.Index(seed, []byte(part[0])); at >= 0 {
						runInput(t, x, home, bytes.Replace(seed, []byte(part[0]), []byte(part[1]), 1))
					}
				}
			}
		})
	}
}

func fuzzInput(f *testing.F, name string) {
	x := inputs[name]
	home := newHome(f, "")
	for _, seed := range x.seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) { runInput(t, x, home, data) })
}

func FuzzRecording(f *testing.F)    { fuzzInput(f, "recording") }
func FuzzFailedChunk(f *testing.F)  { fuzzInput(f, "failed chunk") }
func FuzzEpochConfig(f *testing.F)  { fuzzInput(f, "epoch config") }
func FuzzConfig(f *testing.F)       { fuzzInput(f, "config") }
func FuzzGenesis(f *testing.F)      { fuzzInput(f, "genesis") }
func FuzzKey(f *testing.F)          { fuzzInput(f, "key") }
func FuzzLogConfig(f *testing.F)    { fuzzInput(f, "log config") }
func FuzzFrames(f *testing.F)       { fuzzInput(f, "frames") }
func FuzzFrameSummary(f *testing.F) { fuzzInput(f, "summary") }
func FuzzConflicts(f *testing.F)    { fuzzInput(f, "conflicts") }
func FuzzReport(f *testing.F)       { fuzzInput(f, "report") }
func FuzzSnapshot(f *testing.F)     { fuzzInput(f, "snapshot") }
func FuzzLocalnet(f *testing.F)     { fuzzInput(f, "localnet key") }

func constant(texts ...string) func(testing.TB) [][]byte {
	return func(testing.TB) (out [][]byte) {
		for _, x := range texts {
			out = append(out, []byte(x))
		}
		return out
	}
}

// ofHome returns a file as init makes it.
func ofHome(name string) func(testing.TB) [][]byte {
	return func(t testing.TB) [][]byte {
		dir := newHome(t, "")
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return [][]byte{text}
	}
}

// recordings are the beginning of a recorded chain, with the seeds of its validators and without.
func recordings(t testing.TB) [][]byte {
	file, err := os.Open("../../internal/testkit/replay/testdata/storm.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfterN(text, []byte("\n"), 21)[:20]
	var meta map[string]any
	if err := json.Unmarshal(lines[0], &meta); err != nil {
		t.Fatal(err)
	}
	delete(meta, "validator_seeds")
	bare, err := json.Marshal(meta)
	if err != nil {
		t.Fatal(err)
	}
	return [][]byte{bytes.Join(lines, nil), append(append(bare, '\n'), bytes.Join(lines[1:], nil)...)}
}

func failedChunks(t testing.TB) [][]byte {
	text, err := json.Marshal(&badchunk.File{Format: 1, Chain: "chain", Height: 7, Reason: "panic: boom", Context: badchunk.Context{
		Protocol: parameters.Newest(primitives.NumberingJune), Numbering: primitives.NumberingJune, Layout: primitives.SingleShardLayout().AppendBorsh(nil),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return [][]byte{text}
}

func reports(t testing.TB) [][]byte {
	r := load.Report{Command: "bench load", Format: 1, Phases: make([]load.Phase, 2), Knees: new(load.Knees)}
	text, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	return [][]byte{text}
}

// frames returns the first messages of a recorded network, one of each kind, as frames of one
// connection.
func frames(t testing.TB) [][]byte {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "x")
	tx := primitives.NewSignedTransaction(primitives.Transaction{SignerID: "aa", ReceiverID: "bb", PublicKey: key.PublicKey()}, primitives.ZeroED25519Signature)
	var out []byte
	for i, m := range []wire.Message{&wire.Transaction{Transaction: tx}, wire.NewRouted(key, wire.ToPeer(wire.PeerID(key.PublicKey())), &wire.ForwardTx{SignedTransaction: *tx}, 1)} {
		line, err := json.Marshal(&capture.Line{T: float64(i), From: "node0", To: "node1", Kind: "x", Frame: wire.Append(nil, m)})
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, line...), '\n')
	}
	return [][]byte{out}
}
