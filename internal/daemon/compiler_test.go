package daemon

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
)

// compilerEnv makes this binary a contract compiler that aborts on the code with the hash in its
// value.
const compilerEnv = "TROUPE_TEST_COMPILER"

// children are the functions that run this binary as a child process, by the environment variable
// that contains their argument. They do not return.
var children = map[string]func(string){restoreEnv: restoreAndDie, childEnv: runChild, networkEnv: runNetwork}

func TestMain(m *testing.M) {
	if bad, child := os.LookupEnv(compilerEnv); child {
		os.Exit(vm.ServeCompiler(func(code primitives.Hash) {
			if code.String() == bad {
				_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
				select {}
			}
		}))
	}
	for name, run := range children {
		if what, child := os.LookupEnv(name); child {
			run(what)
		}
	}
	os.Exit(m.Run())
}

// startWith starts a node with a compiler that aborts on bad.
func startWith(t *testing.T, dir string, bad []byte) *Daemon {
	t.Helper()
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hash := "none"
	if bad != nil {
		hash = primitives.HashBytes(bad).String()
	}
	log := logrus.New()
	log.SetOutput(t.Output())
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Log: log, Compiler: compiler.Command{Path: self, Env: []string{compilerEnv + "=" + hash}}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// warnings are the messages of a log at level warning and above.
type warnings chan string

func (w warnings) Levels() []logrus.Level { return []logrus.Level{logrus.WarnLevel} }

func (w warnings) Fire(e *logrus.Entry) error {
	select {
	case w <- e.Message:
	default: // nothing reads so many
	}
	return nil
}

// wait returns when a warning begins so.
func (w warnings) wait(t *testing.T, begin string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case text := <-w:
			if strings.HasPrefix(text, begin) {
				return
			}
		case <-late:
			t.Fatalf("no warning begins with %q", begin)
		}
	}
}

// TestAbortingCompilerStopsOnlyBlocks: a contract on which the compiler always aborts is deployed,
// and the chain continues. A view of it returns an internal error each time and has no other
// effect. When a block calls it, the node stops accepting blocks, reports why and serves reads,
// also after a restart. With a repaired compiler it continues, and the call is executed.
func TestAbortingCompilerStopsOnlyBlocks(t *testing.T) {
	dir, bad := made(t), contracts.C("burner")
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	me, nonce := key.AccountID, primitives.Nonce(0)
	next := func(h *Daemon, actions ...primitives.Action) {
		t.Helper()
		nonce++
		act(t, h, key, nonce, actions...)
	}
	call := &primitives.FunctionCall{Method: "fib", Gas: 50e12}
	reads := func(h *Daemon) {
		t.Helper()
		for range 3 {
			if cause := ask(t, h, "query", map[string]any{"request_type": "call_function", "finality": "optimistic", "account_id": me,
				"method_name": "fib", "args_base64": ""}, new(callResult)); cause != "INTERNAL_ERROR" {
				t.Errorf("a view of the contract: %q", cause)
			}
		}
		var account struct{ Amount string }
		if cause := ask(t, h, "query", map[string]any{"request_type": "view_account", "finality": "final", "account_id": me}, &account); cause != "" || account.Amount == "" {
			t.Errorf("view_account: %q", cause)
		}
		tried, _ := encode(draft(h, key, nonce+1, me, call), nil)
		for _, method := range []string{"EXPERIMENTAL_simulate_tx", "EXPERIMENTAL_trace_tx"} {
			if cause := ask(t, h, method, map[string]any{"signed_tx_base64": tried, "skip_signature_check": true}, new(any)); cause != "INTERNAL_ERROR" {
				t.Errorf("%s of a call of the contract: %q", method, cause)
			}
		}
	}
	halted := func(h *Daemon, want bool) {
		t.Helper()
		var status struct {
			Halted *struct{ Reason string }
		}
		if cause := ask(t, h, "status", []int{}, &status); cause != "" || (status.Halted != nil) != want ||
			want && !strings.Contains(status.Halted.Reason, "can't be compiled by this node") {
			t.Errorf("status: %q, %+v, want halted %v", cause, status, want)
		}
		if got := h.Obstacle(); strings.HasPrefix(got, "it has halted: ") != want || !want && got != "" {
			t.Errorf("Obstacle() = %q, want halted %v", got, want)
		}
	}

	h := startWith(t, dir, bad)
	next(h, &primitives.DeployContract{Code: contracts.Probe()})
	next(h, &primitives.FunctionCall{Method: "noop", Gas: 50e12})
	next(h, &primitives.DeployContract{Code: bad})
	reads(h)
	next(h, &primitives.Transfer{Deposit: primitives.Yocto(1)})
	halted(h, false)
	deaths := h.vm.Stats().Compiler.Deaths
	for range 2 {
		reads(h)
	}
	if again := h.vm.Stats().Compiler.Deaths; again != deaths {
		t.Errorf("%d compilers died although the code is known to kill them", again-deaths)
	}

	warned := make(warnings, 100)
	h.log.AddHook(warned)
	for i := range 2 {
		nonce++
		signed, _ := encode(draft(h, key, nonce, me, call), key)
		if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "EXECUTED_OPTIMISTIC"}, new(txStatus)); cause != "INTERNAL_ERROR" {
			t.Errorf("a call in a block: %q", cause)
		}
		nonce-- // it is in no block
		if i == 0 {
			warned.wait(t, "this node produces no blocks: it has halted: ")
		}
		halted(h, true)
		reads(h)
		r, err := http.Get("http://" + h.Addr.String() + "/metrics")
		if err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("/metrics: %v, %v", r, err)
		}
		_ = r.Body.Close()
		stop(t, h)
		h = startWith(t, dir, bad)
	}
	stop(t, h)

	h = startWith(t, dir, nil)
	defer stop(t, h)
	next(h, call)
	halted(h, false)
	if c := look(t, h, me, "fib", nil); c.Error != "" {
		t.Errorf("a view with the repaired compiler: %+v", c)
	}
	if s := h.vm.Stats().Compiler; s.Quarantined > 1 { // of the trace, which was not requested again
		t.Errorf("got %+v", s)
	}
}
