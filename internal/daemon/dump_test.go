package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/internal/dump"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/storage"
)

// dumped is a dump of a home, as the file that the command writes.
func dumped(t *testing.T, dir string, r *dump.Request) (file []byte, g *genesis.Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "output.json")
	if err := Dump(loaded(t, dir), r, func(d *dump.Received) error {
		g = d.Genesis
		return d.WriteFile(path)
	}); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file, g
}

const dumpPatch = `{"records":[
	{"Account":{"account_id":"new.near","account":{"amount":"7000000000000000000000000","locked":"0","code_hash":"11111111111111111111111111111111","storage_usage":500}}},
	{"Account":{"account_id":"0ux8te7g99f9kqzdtp9h4qnwt9aczpgayymmtbdc50w199rcw3at1g","account":{"amount":"5","locked":"0","code_hash":"11111111111111111111111111111111","storage_usage":100,"version":"V1","state":"uninitialized","bootstrap_nonce":7000000}}},
	{"Contract":{"account_id":"new.near","code":"bm8gd2FzbQ=="}},
	{"Data":{"account_id":"new.near","data_key":"a2V5","value":"dmFsdWU="}},
	{"AccessKey":{"account_id":"new.near","public_key":"ed25519:5BGSaf6YjVm7565VzWQHNxoyEjwr3jUpRJSGjREvU9dB","access_key":{"nonce":3,"permission":"FullAccess"}}},
	{"ReceivedData":{"account_id":"new.near","data_id":"4reLvkAWfqk5fsqio1KLudk46cqRz9erQdaHkWZKMJDZ","data":"AQI="}}]}`

// records are those of a genesis file, by their JSON.
func records(t *testing.T, file []byte) (out []string) {
	t.Helper()
	if err := genesis.ReadRecords(bytes.NewReader(file), func(r genesis.Record) error {
		out = append(out, string(genesis.AppendRecord(nil, r)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDumpRunsAsGenesis: a running node and the folder of the stopped node give the same dump,
// which contains every record once. A chain with it as its genesis has the same state, and
// continues at the next height.
func TestDumpRunsAsGenesis(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	var none struct{}
	if f := rpcOf(t, h, "sandbox_patch_state", dumpPatch, &none); f != "" {
		t.Fatal(f)
	}
	at := h.Engine.Head().Height()
	running, g := dumped(t, dir, &dump.Request{Height: &at})
	if g.GenesisHeight != at+1 || len(g.Validators) != 1 || g.Validators[0].AccountID != "test.near" {
		t.Errorf("genesis of height %d, validators %v; the head is %d", g.GenesisHeight, g.Validators, at)
	}
	all := records(t, running)
	for _, want := range []string{
		`{"Account":{"account_id":"new.near","account":{"amount":"7000000000000000000000000","locked":"0","code_hash":"` + primitives.HashBytes([]byte("no wasm")).String() + `","storage_usage":500,"version":"V1"}}}`,
		`{"Account":{"account_id":"0ux8te7g99f9kqzdtp9h4qnwt9aczpgayymmtbdc50w199rcw3at1g","account":{"amount":"5","locked":"0",` +
			`"code_hash":"11111111111111111111111111111111","storage_usage":100,"version":"V1","state":"uninitialized","bootstrap_nonce":7000000}}}`,
		`{"Contract":{"account_id":"new.near","code":"bm8gd2FzbQ=="}}`,
		`{"Data":{"account_id":"new.near","data_key":"a2V5","value":"dmFsdWU="}}`,
		`{"AccessKey":{"account_id":"new.near","public_key":"ed25519:5BGSaf6YjVm7565VzWQHNxoyEjwr3jUpRJSGjREvU9dB","access_key":{"nonce":3,"permission":"FullAccess"}}}`,
		`{"ReceivedData":{"account_id":"new.near","data_id":"4reLvkAWfqk5fsqio1KLudk46cqRz9erQdaHkWZKMJDZ","data":"AQI="}}`,
	} {
		if n := strings.Count(strings.Join(all, "\n"), want); n != 1 {
			t.Errorf("%d times %s", n, want)
		}
	}
	some, _ := dumped(t, dir, &dump.Request{Height: &at, Accounts: []primitives.AccountID{"new.near"}})
	if got := strings.Join(records(t, some), "\n"); strings.Contains(got, `"near"`) || strings.Count(got, "new.near") != 5 || !strings.Contains(got, `"test.near"`) {
		t.Errorf("new.near and the validator are\n%s", got)
	}
	before, _ := dumped(t, dir, &dump.Request{Height: new(primitives.Height)})
	if got := records(t, before); len(got) != 4 {
		t.Errorf("at the genesis: %v", got)
	}
	above := at + 1_000_000
	if err := Dump(loaded(t, dir), &dump.Request{Height: &above}, func(*dump.Received) error { return nil }); err == nil || !strings.Contains(err.Error(), "no block at the requested height") {
		t.Errorf("a height above the head: %v", err)
	}
	stop(t, h)
	if _, err := os.Stat(filepath.Join(dir, "data", controlName)); err == nil {
		t.Error("the socket file was not removed")
	}
	stopped, _ := dumped(t, dir, &dump.Request{Height: &at})
	if got := records(t, stopped); strings.Join(got, "\n") != strings.Join(all, "\n") {
		t.Errorf("stopped\n%s\nrunning\n%s", got, all)
	}

	again := made(t)
	if err := os.WriteFile(filepath.Join(again, "genesis.json"), running, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(again, "validator_key.json"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := home.Check(again); len(r.Errors) > 0 {
		t.Fatal(r.Errors)
	}
	h = mustStart(t, again)
	defer stop(t, h)
	if got := h.Engine.Genesis().Height(); got != at+1 {
		t.Errorf("the new chain begins at %d, want %d", got, at+1)
	}
	first := h.Engine.Genesis().Height()
	once, _ := dumped(t, again, &dump.Request{Height: &first})
	// The storage usage of an account is counted anew in a genesis: 100 for it, 76 for the key and
	// its row, 7 of code, 48 of data.
	want := strings.ReplaceAll(strings.Join(all, "\n"), `"storage_usage":500`, fmt.Sprintf(`"storage_usage":%d`, storageOf(t, once, "new.near")))
	if got := strings.Join(records(t, once), "\n"); got != want {
		t.Errorf("the dump of the new chain is\n%s\nwant\n%s", got, want)
	}
}

func storageOf(t *testing.T, file []byte, id string) (usage uint64) {
	t.Helper()
	if err := genesis.ReadRecords(bytes.NewReader(file), func(r genesis.Record) error {
		if a, ok := r.(*genesis.AccountRecord); ok && string(a.AccountID) == id {
			usage = a.Account.StorageUsage
		}
		return nil
	}); err != nil || usage == 0 {
		t.Fatalf("%s uses %d bytes, %v", id, usage, err)
	}
	return usage
}

// TestStreamedDumpIsAHomeFolder: a node runs on the home folder that --stream writes.
func TestStreamedDumpIsAHomeFolder(t *testing.T) {
	dir, to := made(t), filepath.Join(t.TempDir(), "output")
	h := mustStart(t, dir)
	at := h.Engine.Head().Height()
	hm := loaded(t, dir)
	if err := Dump(hm, &dump.Request{}, func(d *dump.Received) error {
		at = d.Genesis.GenesisHeight
		return d.WriteFolder(to, hm)
	}); err != nil {
		t.Fatal(err)
	}
	stop(t, h)
	var list []json.RawMessage
	if raw, err := os.ReadFile(filepath.Join(to, "records.json")); err != nil || json.Unmarshal(raw, &list) != nil || len(list) != 4 {
		t.Errorf("%d records, %v", len(list), err)
	}
	if info, err := os.Stat(filepath.Join(to, "validator_key.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	h = mustStart(t, to)
	defer stop(t, h)
	if got := h.Engine.Genesis().Height(); got != at {
		t.Errorf("the chain begins at %d, want %d", got, at)
	}
}

// TestControlSocketIsForItsUserOnly: only the node's user can open the socket, also if the folder's
// path is longer than that of a socket may be. An invalid request gets an error. A socket left by a
// crash is replaced. If a running node has no socket, the error of opening the folder names the
// node.
func TestControlSocketIsForItsUserOnly(t *testing.T) {
	dir := made(t)
	long := filepath.Join(dir, strings.Repeat("n", 120))
	if err := os.Rename(dir, dir+"x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+"x", long); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(long, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	h := mustStart(t, long)
	path := filepath.Join(data, controlName)
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	var conn net.Conn
	if err := shortPath(path, func(short string) (err error) {
		conn, err = net.Dial("unix", short)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("what\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := dump.Receive(conn); err == nil || !strings.Contains(err.Error(), "invalid character") {
		t.Errorf("no request: %v", err)
	}
	_ = conn.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := Dump(loaded(t, long), &dump.Request{}, func(*dump.Received) error { return nil }); err == nil || !strings.Contains(err.Error(), "another node runs on") {
		t.Errorf("beside a node without a socket: %v", err)
	}
	stop(t, h)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h = mustStart(t, long)
	defer stop(t, h)
	if err := Dump(loaded(t, long), &dump.Request{}, func(*dump.Received) error { return nil }); err != nil {
		t.Errorf("after a crash: %v", err)
	}
}

// TestDumpEndsWhenClientStopsReading: a client can stop reading a dump before its beginning or
// within.
func TestDumpEndsWhenClientStopsReading(t *testing.T) {
	h := mustStart(t, made(t))
	defer stop(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	d, err := dump.Open(ctx, h.Engine, h.home.Genesis, now(), new(dump.Request))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = d.Records(func(genesis.Record) error { n++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("%d records, %v", n, err)
	}
	if _, err := dump.Open(ctx, h.Engine, h.home.Genesis, now(), new(dump.Request)); !errors.Is(err, context.Canceled) {
		t.Errorf("opened: %v", err)
	}
}

// TestStopDoesNotWaitForEndlessReply: a reply at the control socket that does not end delays the
// stop of the node only up to the limit. The stop reports it and does not close the store.
func TestStopDoesNotWaitForEndlessReply(t *testing.T) {
	h := mustStart(t, made(t))
	h.control.wg.Add(1)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err := h.Stop(ctx)
	if took := time.Since(begun); took > 20*time.Second { // the reply never ends
		t.Errorf("stopped after %v", took)
	}
	if err == nil || !strings.Contains(err.Error(), "control did not end in time") {
		t.Errorf("Stop: %v", err)
	}
	_ = h.Node.Stop(t.Context())
	if err := h.store.Write(new(storage.Batch)); err != nil {
		t.Errorf("the store was closed under what had not ended: %v", err)
	}
	h.control.wg.Done()
	if err := errors.Join(h.Engine.AdvanceFlatHead(), h.store.Close()); err != nil {
		t.Error(err)
	}
	h.vm.Close()
}

// TestDumpClientTimesOut: a client waits a limited time for the beginning of a dump and for each
// later piece.
func TestDumpClientTimesOut(t *testing.T) {
	for _, sent := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) { dumpIsLate(t, sent) })
	}
}

func dumpIsLate(t *testing.T, sent int) {
	there, here := net.Pipe()
	began := make(chan error, 1)
	go func() {
		d, err := dump.Receive(&deadlineReader{Conn: here, next: 200 * time.Millisecond, later: 20 * time.Millisecond})
		if err == nil {
			err = d.Records(func(genesis.Record) error { return nil })
		}
		began <- err
	}()
	if sent > 0 {
		time.Sleep(50 * time.Millisecond) // which is not too late for the beginning
		if _, err := there.Write([]byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-began:
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, dump.ErrBroken) {
			t.Errorf("after %d bytes: %v", sent, err)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("after %d bytes it does not end", sent)
	}
	_ = here.Close()
}

// failingListener is a listener of which an accept fails before it is closed.
type failingListener struct {
	net.Listener
	calls int
}

func (f *failingListener) Accept() (net.Conn, error) {
	if f.calls++; f.calls == 1 {
		return nil, syscall.EMFILE
	}
	return nil, net.ErrClosed
}

// TestControlSocketSurvivesFailedAccept: closing the socket ends it.
func TestControlSocketSurvivesFailedAccept(t *testing.T) {
	f := new(failingListener)
	(&control{l: f}).accept()
	if f.calls != 2 {
		t.Errorf("%d accepts, want 2", f.calls)
	}
}
