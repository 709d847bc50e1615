package apply

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/refmodel"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// pairsOut writes the outcomes that the rules predict over the tables of testdata/pairs*.md. The
// explanations of the codes in these files are written by hand.
var pairsOut = flag.Bool("pairs", false, "write the tables of testdata/pairs*.md again")

// pairTable is one of testdata/pairs*.md: codes with the error that they stand for, and for each
// place and two actions a cell.
type pairTable struct {
	file  string
	rules refmodel.Rules
	head  string // all before the tables
	codes map[string]string
	cells map[string]string // "place first second"
}

var (
	codeRow  = regexp.MustCompile(`^\| ([A-Z]{2,3}) \| ([A-Za-z]+) \| (.*)\|$`)
	upstream = regexp.MustCompile(`[a-z_]+\.rs:\d+`)
)

func readPairs(t *testing.T, file string, rules refmodel.Rules) *pairTable {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := &pairTable{file: file, rules: rules, codes: map[string]string{}, cells: map[string]string{}}
	text := string(b)
	p.head, _, _ = strings.Cut(text, "\n## ")
	var place string
	var columns []string
	for _, line := range strings.Split(text, "\n") {
		if m := codeRow.FindStringSubmatch(line); m != nil {
			if !upstream.MatchString(m[3]) {
				t.Errorf("code %s names no line of nearcore", m[1])
			}
			p.codes[m[2]] = m[1]
			continue
		}
		if title, ok := strings.CutPrefix(line, "## "); ok {
			place, _, _ = strings.Cut(title, ":")
			columns = nil
			continue
		}
		if place == "" || !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") {
			continue
		}
		row := strings.Split(strings.Trim(line, "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		if columns == nil {
			columns = row
			continue
		}
		for i, cell := range row[1:] {
			p.cells[place+" "+row[0]+" "+columns[i+1]] = cell
		}
	}
	return p
}

// cell names the outcome of a list of actions: "ok" with the return value of the last one, the
// action that failed and its error ("-": the receipt, after the last action), or "x" and the error
// for a list that cannot be sent.
func (p *pairTable) cell(at refmodel.Place, value []byte, e *primitives.ActionError, invalid *primitives.ActionsValidationError) string {
	code := func(name string) string {
		if c, ok := p.codes[name]; ok {
			return c
		}
		return "?" + name
	}
	switch {
	case invalid != nil:
		return "x " + code(invalid.Tag.String())
	case e == nil && len(value) == 1:
		return fmt.Sprintf("ok v%d", value[0])
	case e == nil:
		return "ok"
	}
	name := e.Kind.Tag.String()
	if f := e.Kind.FunctionCall; f != nil && f.Compilation != nil && f.Compilation.Tag == primitives.CompilationCodeDoesNotExist {
		name = "CodeDoesNotExist"
	}
	if e.Index != nil {
		return strconv.Itoa(int(*e.Index)-len(at.Before)) + " " + code(name)
	}
	return "- " + code(name)
}

// TestEachPairOfActionsHasExpectedOutcome checks every pair of actions in one receipt and in one
// transaction, from and to accounts of each kind. The outcomes must be those of testdata/pairs.md,
// whose codes cite nearcore's lines, and those of internal/testkit/refmodel.
func TestEachPairOfActionsHasExpectedOutcome(t *testing.T) {
	t.Parallel()
	t.Run("86", func(t *testing.T) { testPairs(t, readPairs(t, "testdata/pairs.md", 86), refmodel.Places()) })
	t.Run("88", func(t *testing.T) { testPairs(t, readPairs(t, "testdata/pairs88.md", 88), refmodel.UniversalPlaces()) })
}

func testPairs(t *testing.T, p *pairTable, places []refmodel.Place) {
	v, err := vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	kinds := refmodel.Kinds(p.rules)
	tags := map[primitives.ActionTag]bool{}
	for _, k := range kinds {
		tags[k.Make(places[0].To).Tag()] = true
	}
	if len(tags) != 15 {
		t.Errorf("%d kinds of actions, want all 15", len(tags))
	}
	base := ruledNet(t, refmodel.PairWorld(p.rules), v)
	seen := 0
	var out strings.Builder
	out.WriteString(p.head)
	for _, at := range places {
		fmt.Fprintf(&out, "\n## %s: %s\n\n| |", at.Name, at.Text)
		for _, k := range kinds {
			fmt.Fprintf(&out, " %s |", k.Name)
		}
		out.WriteString("\n|" + strings.Repeat("---|", len(kinds)+1) + "\n")
		for _, first := range kinds {
			fmt.Fprintf(&out, "| %s |", first.Name)
			for _, second := range kinds {
				actions := append(slices.Clone(at.Before), first.Make(at.To), second.Make(at.To))
				name := at.Name + " " + first.Name + " " + second.Name
				predicted := p.predicted(at, actions)
				fmt.Fprintf(&out, " %s |", predicted)
				if *pairsOut {
					continue
				}
				want, ok := p.cells[name]
				if seen++; !ok || want != predicted {
					t.Errorf("%s: the table has %q, the rules say %q", name, want, predicted)
				}
				if got := p.received(base, at, actions); got != want {
					t.Errorf("%s, as a receipt: %q, want %q", name, got, want)
				}
				if got := p.sent(base, at, actions); !at.Receipt && got != want {
					t.Errorf("%s, as a transaction: %q, want %q", name, got, want)
				}
			}
			out.WriteByte('\n')
		}
	}
	if *pairsOut {
		if err := os.WriteFile(p.file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(p.cells) != seen {
		t.Errorf("the table has %d cells, %d are known", len(p.cells), seen)
	}
	for name, code := range p.codes {
		used := false
		for _, cell := range p.cells {
			used = used || strings.HasSuffix(cell, " "+code)
		}
		if !used {
			t.Errorf("no cell ends with %s, %s", code, name)
		}
	}
}

// predicted is what the rules say.
func (p *pairTable) predicted(at refmodel.Place, actions []primitives.Action) string {
	if e := p.rules.Invalid(actions, at.To); e != nil {
		return p.cell(at, nil, nil, e)
	}
	o := refmodel.Pair(p.rules, at, false, actions...).Play().Outcomes[0]
	return p.cell(at, o.Value, o.Err, nil)
}

// received is how the actions end in a receipt that comes to the chunk.
func (p *pairTable) received(base *net, at refmodel.Place, actions []primitives.Action) string {
	n, s := base.copy(), refmodel.Pair(p.rules, at, false, actions...)
	n.give(s.Incoming...)
	n.height = s.Height
	r, err := Apply(n.input(0, nil))
	var invalid *primitives.ReceiptValidationError
	if errors.As(err, &invalid) {
		return p.cell(at, nil, nil, invalid.Actions)
	} else if err != nil {
		return err.Error()
	}
	return p.ended(at, &r.Outcomes[0])
}

// sent is how they end in a transaction.
func (p *pairTable) sent(base *net, at refmodel.Place, actions []primitives.Action) string {
	n, s := base.copy(), refmodel.Pair(p.rules, at, true, actions...)
	n.height = s.Height - 1
	results := n.step(s.Txs...)
	o := &results[0].Outcomes[0]
	if o.Status.Kind == primitives.StatusFailure {
		var e primitives.TxExecutionError
		if err := json.Unmarshal(o.Status.Failure, &e); err != nil || e.InvalidTx == nil || e.InvalidTx.Actions == nil {
			return string(o.Status.Failure)
		}
		return p.cell(at, nil, nil, e.InvalidTx.Actions)
	}
	if at.From != at.To {
		// The delegate actions of a pair are made for the height of an incoming receipt. Here the
		// receipt runs one block later.
		results = n.step()
	}
	return p.ended(at, findOutcome(n.t, results, o.ReceiptIDs[0]))
}

func (p *pairTable) ended(at refmodel.Place, o *primitives.OutcomeWithID) string {
	if o.Status.Kind != primitives.StatusFailure {
		return p.cell(at, o.Status.Value, nil, nil)
	}
	var e primitives.TxExecutionError
	if err := json.Unmarshal(o.Status.Failure, &e); err != nil || e.Action == nil {
		return string(o.Status.Failure)
	}
	return p.cell(at, nil, e.Action, nil)
}

// copy returns an independent chain with the same state.
func (n *net) copy() *net {
	c := *n
	c.shards = slices.Clone(n.shards)
	for i := range c.shards {
		c.shards[i].incoming = make([][]*primitives.Receipt, len(c.shards))
	}
	return &c
}
