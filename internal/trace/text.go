package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/troupe-chain/troupe/internal/txtext"
	"github.com/troupe-chain/troupe/primitives"
)

// mostLog is the maximum number of bytes of a contract's log in the text.
const mostLog = 16 << 10

// maxPart is the maximum number of bytes of a part of a line. maxDepth is the maximum number of
// indented levels.
const (
	maxPart  = 128 << 10
	maxDepth = 40
)

// WriteText writes a report as text: the receipts as a tree, and under each receipt the calls of
// that receipt. A call lists the host functions that burnt most gas or accessed the storage. lines
// is the maximum number of host functions per call; 0: all.
func (r *Report) WriteText(w io.Writer, lines int) error {
	p := &printer{w: w}
	verb := "did"
	if r.Simulated {
		verb = "would do"
	}
	p.printf("transaction %s: what it %s\n", r.Transaction, verb)
	p.printf("%s -> %s   %s, %s burnt   %s\n", r.Signer, r.Receiver, gas(r.Gas), amount(r.Tokens), brief(r.Status))
	if !r.Complete {
		p.printf("not all of its receipts are executed\n")
	}
	for i := range r.Outcomes {
		p.outcome(&r.Outcomes[i], i == 0, lines)
	}
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

// printf writes a part of a line, or the rest of the line with the line break. printf escapes
// characters that are not printable, because a report may come from a malicious node.
func (p *printer) printf(format string, a ...any) {
	if p.err != nil {
		return
	}
	text, ends := strings.CutSuffix(fmt.Sprintf(format, a...), "\n")
	text = txtext.Line(text, maxPart)
	if ends {
		text += "\n"
	}
	_, p.err = io.WriteString(p.w, text)
}

// amount formats yoctoNEAR.
func amount(yocto string) string {
	b, err := primitives.ParseBalance(yocto)
	if err != nil {
		return yocto + " yoctoNEAR"
	}
	return txtext.NEAR(b)
}

func (p *printer) outcome(o *Outcome, first bool, lines int) {
	in := strings.Repeat("  ", max(0, min(o.Depth, maxDepth)))
	what := "receipt "
	if first {
		what = "signed  "
	}
	p.printf("%s%s%s  %s -> %s  %s  %s  %s\n", in, what, o.ID, o.Predecessor, o.Executor, strings.Join(o.Actions, ", "),
		gas(o.Gas), brief(o.Status))
	in += "    "
	for _, c := range o.Calls {
		p.printf("%scall %s  %s of %s: wasm %s", in, txtext.Line(c.Method, 256), gas(c.Gas), gas(c.Prepaid), gas(c.Wasm))
		if c.Deposit != "0" {
			p.printf(", deposit %s", amount(c.Deposit))
		}
		if c.Error != nil {
			p.printf("  %s", c.Error)
		}
		p.printf("\n")
		for i := range c.Missing {
			p.printf("%s  missing import %s\n", in, c.Missing[i].String())
		}
		for i := range c.Host {
			if lines > 0 && i >= lines {
				p.printf("%s  ... %d more host calls\n", in, len(c.Host)-i+c.Omitted)
				break
			}
			p.host(in, &c.Host[i])
		}
		if c.Omitted > 0 && (lines == 0 || len(c.Host) < lines) {
			p.printf("%s  ... %d more host calls\n", in, c.Omitted)
		}
	}
	for _, l := range o.Logs {
		p.printf("%slog %s\n", in, txtext.Line(l, mostLog))
	}
}

func (p *printer) host(in string, h *HostCall) {
	p.printf("%s  %-24s %12s", in, h.Name, gas(h.Gas))
	if e := h.Entry; e != nil {
		p.printf("  %s", text(e.Key, len(e.Key)))
		switch {
		case e.Value != nil || e.Len > 0:
			p.printf(" = %s", text(e.Value, e.Len))
		case !e.Found:
			p.printf(" is absent")
		}
		if e.Nodes > 0 {
			p.printf("  %d trie nodes", e.Nodes)
		}
	}
	if h.Failed {
		p.printf("  failed")
	}
	p.printf("\n")
}

// gas formats gas in Tgas.
func gas(g uint64) string { return strconv.FormatFloat(float64(g)/1e12, 'f', 4, 64) + " Tgas" }

// text formats bytes as text if they are printable, else in hex. b may be cut off; n is the full
// length.
func text(b []byte, n int) string {
	const shown = 64
	cut := b[:min(len(b), shown)]
	out := fmt.Sprintf("%q", cut)
	if strings.ContainsFunc(string(cut), func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) && r != 0 }) {
		out = fmt.Sprintf("0x%x", cut)
	}
	if n > len(cut) {
		out += fmt.Sprintf("... (%d bytes)", n)
	}
	return out
}

// brief formats a status on one line.
func brief(status json.RawMessage) string {
	return txtext.Line(string(status), 300)
}
