package txscript

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// play is a script's state: the same on chains of one and of four shards.
type play struct {
	t      *testing.T
	worlds []*World
	labels map[string][]primitives.Hash // by world
}

var shards = []int{1, 4}

// each runs something on all chains and joins what they say: once if all say the same.
func (p *play) each(do func(w *World, i int) (string, error)) string {
	var said []string
	for i, w := range p.worlds {
		text, err := do(w, i)
		if err != nil {
			text += "error: " + err.Error() + "\n"
		}
		said = append(said, text)
	}
	return join(said)
}

// place is what differs between numbers of shards though the same happens: ids, and when.
var place = regexp.MustCompile(`\b[1-9A-HJ-NP-Za-km-z]{43,44}\b|height \d+`)

// join writes the first chain's text, and of the others what differs.
func join(said []string) string {
	out := said[0]
	for i, text := range said[1:] {
		if text == said[0] {
			continue
		}
		out += fmt.Sprintf("---- %d shards\n", shards[i+1])
		if place.ReplaceAllString(text, "") != place.ReplaceAllString(said[0], "") {
			out += text
			continue
		}
		// Alike but for ids and heights: those of each outcome, a line each.
		for _, l := range strings.Split(text, "\n") {
			l = strings.TrimPrefix(strings.TrimSpace(l), "tx ")
			if height, ok := strings.CutPrefix(l, "height "); ok {
				height, _, _ = strings.Cut(height, ",")
				out = strings.TrimSuffix(out, "\n") + " " + height + "\n"
			} else if at := place.FindStringIndex(l); at != nil && at[0] == 0 {
				out += l[:at[1]] + "\n"
			}
		}
	}
	return out
}

// TestScriptsHaveExpectedOutcomes plays testdata/scripts:
//
//	chain [balance=AMOUNT] [release=VERSION] with account names, one a line
//	tx from= to= [as=LABEL] with actions, one a line: one transaction, run to its end
//	block [as=LABEL] with "FROM TO ACTION" lines: transactions of one action in one block
//	tree as=LABEL: how the first transaction of that label stands now
//	blocks n=: empty ones
//	data account=; account with names, one a line
//
// An account @NAME is the universal one whose only key is NAME's.
func TestScriptsHaveExpectedOutcomes(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		p := &play{t: t, labels: map[string][]primitives.Hash{}}
		defer p.close()
		datadriven.RunTest(t, path, p.command)
	})
}

func (p *play) close() {
	for _, w := range p.worlds {
		_ = w.Close()
	}
	p.worlds = nil
}

func (p *play) command(t *testing.T, d *datadriven.TestData) string {
	p.t = t
	arg := func(key string) (v string) {
		if d.HasArg(key) {
			d.ScanArgs(t, key, &v)
		}
		return v
	}
	switch d.Cmd {
	case "chain":
		return p.begin(d.Input, arg("balance"), arg("release"))
	case "tx":
		return p.send(arg("as"), func(w *World) []*primitives.SignedTransaction {
			var actions []primitives.Action
			for _, l := range strings.Split(d.Input, "\n") {
				a, err := w.ParseAction(l)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				actions = append(actions, a)
			}
			return []*primitives.SignedTransaction{w.Sign(w.Named(arg("from")), w.Named(arg("to")), actions...)}
		})
	case "block":
		return p.send(arg("as"), func(w *World) (txs []*primitives.SignedTransaction) {
			for _, l := range strings.Split(d.Input, "\n") {
				f := strings.SplitN(l, " ", 3)
				a, err := w.ParseAction(f[2])
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				txs = append(txs, w.Sign(w.Named(f[0]), w.Named(f[1]), a))
			}
			return txs
		})
	case "tree":
		return p.each(func(w *World, i int) (string, error) { return w.Tree(p.labels[arg("as")][i]), nil })
	case "blocks":
		var n int
		d.ScanArgs(t, "n", &n)
		return p.each(func(w *World, _ int) (string, error) {
			for range n {
				if _, err := w.Block(); err != nil {
					return "", err
				}
			}
			return "", nil
		})
	case "data":
		return p.each(func(w *World, _ int) (string, error) { return w.Data(primitives.AccountID(arg("account"))) })
	case "account":
		return p.each(func(w *World, _ int) (out string, err error) {
			for _, id := range strings.Fields(d.Input) {
				text, err := w.Account(w.Named(id))
				if out += text; err != nil {
					return out, err
				}
			}
			return out, nil
		})
	}
	d.Fatalf(t, "no command %s", d.Cmd)
	return ""
}

func (p *play) begin(names, balance, release string) string {
	p.close()
	var o Options
	for _, n := range strings.Fields(names) {
		o.Accounts = append(o.Accounts, primitives.AccountID(n))
	}
	var err error
	if balance != "" {
		if o.Balance, err = ParseAmount(balance); err != nil {
			p.t.Fatal(err)
		}
	}
	if release != "" {
		v, err := strconv.ParseUint(release, 10, 32)
		if err != nil {
			p.t.Fatal(err)
		}
		o.Release = primitives.ProtocolVersion(v)
	}
	o.VM = testVM(p.t)
	for _, n := range shards {
		o.Shards = n
		w, err := New(o)
		if err != nil {
			p.t.Fatal(err)
		}
		p.worlds = append(p.worlds, w)
	}
	return ""
}

// send runs transactions to their ends and tells what came of them.
func (p *play) send(label string, make func(w *World) []*primitives.SignedTransaction) string {
	if label != "" {
		p.labels[label] = nil
	}
	return p.each(func(w *World, _ int) (out string, err error) {
		txs := make(w)
		if label != "" {
			p.labels[label] = append(p.labels[label], txs[0].Hash())
		}
		err = w.Run(txs...)
		for _, tx := range txs {
			out += w.Tree(tx.Hash())
		}
		return out, err
	})
}

// testVM is one VM for all chains of the tests.
func testVM(t *testing.T) *vm.VM {
	t.Helper()
	v, err := theVM()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var theVM = sync.OnceValues(func() (*vm.VM, error) {
	return vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
})
