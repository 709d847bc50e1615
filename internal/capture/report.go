package capture

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/troupe-chain/troupe/net/wire"
)

// Filter selects lines of a recording. The zero value selects all.
type Filter struct {
	Kinds []string // kinds of messages, or of the bodies of routed messages, to select; empty: all
	Node  string   // name of a node; selects the connections of that node; empty: all connections
	Conn  int      // number of the connection to select; -1: all
	From  float64  // start of the selected time in seconds since the recording began
	// end of the selected time in seconds since the recording began; 0: the end of the recording
	Until float64
}

// passes returns whether a line is shown. body is the body of a routed message.
func (f *Filter) passes(l *Line, from, to, body string) bool {
	switch {
	case f.Conn >= 0 && l.Conn != f.Conn, l.T < f.From, f.Until > 0 && l.T > f.Until:
		return false
	case f.Node != "" && f.Node != from && f.Node != to && f.Node != l.From && f.Node != l.To:
		return false
	}
	return len(f.Kinds) == 0 ||
		slices.ContainsFunc(f.Kinds, func(k string) bool { return strings.EqualFold(k, l.Kind) || strings.EqualFold(k, body) })
}

// plain escapes text for a terminal: neither peers nor a recording may send control characters to
// the terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// message returns the description of a line and, for a routed message, the kind of its body.
func message(l *Line, n Names) (words, body string) {
	m, err := wire.Decode(l.Frame)
	if err != nil {
		return fmt.Sprintf("refused, %d bytes: %v", len(l.Frame), err), ""
	}
	if r, ok := m.(*wire.Routed); ok {
		body = r.Body.BodyKind().String()
	}
	return n.Words(m), body
}

// Write formats a recording, one line for each selected frame.
func Write(out io.Writer, in io.Reader, f Filter, n Names) error {
	w := bufio.NewWriter(out)
	for l, err := range Lines(in) {
		if err != nil {
			return flush(w, err)
		}
		if len(l.Nodes) > 0 {
			n.Add(l)
			continue
		}
		from, to := n.End(l.From), n.End(l.To)
		if l.Note != "" {
			if f.passes(l, from, to, "") {
				_, _ = fmt.Fprintf(w, "%10.4f #%d -- %s\n", l.T, l.Conn, plain(l.Note))
			}
			continue
		}
		words, body := message(l, n)
		if f.passes(l, from, to, body) {
			if _, err := fmt.Fprintf(w, "%10.4f #%d %s > %s %s: %s\n", l.T, l.Conn, plain(from), plain(to), plain(l.Kind),
				plain(words)); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

func flush(w *bufio.Writer, err error) error {
	if e := w.Flush(); e != nil {
		return e
	}
	return err
}

// sum holds the totals of one kind of message: number of frames, of bytes, and of frames that could
// not be decoded, and the size of the longest frame.
type sum struct {
	frames, bytes, refused int
	longest                int
}

// Summarize prints the totals of the selected frames for each kind of message, most bytes first.
func Summarize(out io.Writer, in io.Reader, f Filter, n Names) error {
	sums := map[string]*sum{}
	var all sum
	conns := map[int]bool{}
	last := 0.0
	var broken error
	for l, err := range Lines(in) {
		if err != nil {
			broken = err
			break
		}
		if n.Add(l); len(l.Frame) == 0 {
			continue
		}
		words, body := message(l, n)
		if !f.passes(l, n.End(l.From), n.End(l.To), body) {
			continue
		}
		kind := plain(l.Kind)
		if body != "" {
			kind += " " + body
		}
		if sums[kind] == nil {
			sums[kind] = new(sum)
		}
		for _, s := range []*sum{sums[kind], &all} {
			s.frames++
			s.bytes += len(l.Frame)
			s.longest = max(s.longest, len(l.Frame))
			if strings.HasPrefix(words, "refused, ") {
				s.refused++
			}
		}
		conns[l.Conn], last = true, max(last, l.T)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(kind string, s *sum) {
		_, _ = fmt.Fprintf(w, "%d\t%d\t%d\t%d\t  %s\n", s.frames, s.bytes, s.longest, s.refused, kind)
	}
	_, _ = fmt.Fprint(w, "frames\tbytes\tlongest\trefused\t  kind\n")
	kinds := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b].bytes, sums[a].bytes), strings.Compare(a, b))
	})
	for _, k := range kinds {
		row(k, sums[k])
	}
	row(fmt.Sprintf("in %d connections, %.1f s", len(conns), last), &all)
	if err := w.Flush(); err != nil {
		return err
	}
	return broken
}
