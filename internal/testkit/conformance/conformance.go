// Package conformance compares the RPC with recorded replies of neard.
//
//	in      recordings (wire.jsonl.gz), the plan, which assigns each line a kind, and a Client
//	out     for each line nothing, or the first difference with its path and both values
//	state   none
//	bound   a recording is read whole: 2 MB
//	errors  of files
//	source  recordings of neard: status, headers and body are compared, key order at every depth
//	        included, after values that depend on the chain have been made equal
package conformance

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Line is a recorded HTTP request to neard, with its reply.
type Line struct {
	File           string `json:"-"` // "wire", "wire2"
	N              int    `json:"-"` // number of the line in its file, from 1
	Name           string
	Method         string
	Path           string
	RequestHeaders map[string]string `json:"request_headers"`
	RequestBody    *string           `json:"request_body"` // nil: the request has no body
	Status         int
	Headers        map[string]string
	Body           string
	Exception      string // error with which the recorder failed, instead of a reply; empty: none
}

// String names the line.
func (l *Line) String() string { return fmt.Sprintf("%s %d (%s)", l.File, l.N, l.Name) }

// Request is an HTTP request that a Client sends.
type Request struct {
	Method, Path string
	Headers      map[string]string
	Body         string
}

// Reply is what a Client receives. Header names are in lower case.
type Reply struct {
	Status  int
	Headers map[string]string
	Body    string
}

// Client sends a request to the tested node and returns the reply.
type Client func(Request) (Reply, error)

// Request returns the recorded request. For three requests the recording has only the size of the
// body, "(padded to N bytes)". For these it returns a health request whose id is N times the letter
// x.
func (l *Line) Request() Request {
	r := Request{Method: l.Method, Path: l.Path, Headers: l.RequestHeaders}
	if l.RequestBody != nil {
		r.Body = *l.RequestBody
	}
	if size, ok := strings.CutPrefix(r.Body, "(padded to "); ok {
		n, err := strconv.Atoi(strings.TrimSuffix(size, " bytes)"))
		const frame = `{"jsonrpc":"2.0","id":"","method":"health"}`
		if err == nil && n >= len(frame) {
			r.Body = `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", n-len(frame)) + `","method":"health"}`
		}
	}
	return r
}

// Load reads a recording. Line.File is the name of the file up to its first dot.
func Load(path string) ([]Line, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	var lines []Line
	for d := json.NewDecoder(bufio.NewReader(z)); ; {
		l := Line{File: name, N: len(lines) + 1}
		if err := d.Decode(&l); err == io.EOF {
			return lines, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, l.N, err)
		}
		lines = append(lines, l)
	}
}

// Kind is how a line is tested.
type Kind string

// The kinds of the plan.
const (
	Offline Kind = "offline" // the reply is checked without a chain
	Chain   Kind = "chain"   // the reply is checked against a running node
	Differs Kind = "differs" // this node deliberately replies in another way
)

// Entry says how one line of a recording is tested, and why.
type Entry struct {
	Kind   Kind
	Reason string
}

// Plan maps a file's name and the number of a line in it to the line's Entry.
type Plan map[string]map[int]Entry

// LoadPlan reads a plan: lines of file, number or range, kind and reason. A line that occurs twice
// is an error.
func LoadPlan(path string) (Plan, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	plan := Plan{}
	for i, row := range strings.Split(string(text), "\n") {
		if row = strings.TrimSpace(row); row == "" || row[0] == '#' {
			continue
		}
		f := strings.SplitN(row, " ", 4)
		if len(f) < 3 {
			return nil, fmt.Errorf("%s:%d: %q is not an entry of the form FILE LINES KIND [REASON]", path, i+1, row)
		}
		first, last, isRange := strings.Cut(f[1], "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from > to {
			return nil, fmt.Errorf("%s:%d: %q is not a line number or a range FROM-TO", path, i+1, f[1])
		}
		e := Entry{Kind: Kind(f[2])}
		if len(f) == 4 {
			e.Reason = f[3]
		}
		switch e.Kind {
		case Offline, Chain:
		case Differs:
			if e.Reason == "" {
				return nil, fmt.Errorf("%s:%d: kind differs needs a reason", path, i+1)
			}
		default:
			return nil, fmt.Errorf("%s:%d: unknown kind %q", path, i+1, e.Kind)
		}
		if plan[f[0]] == nil {
			plan[f[0]] = map[int]Entry{}
		}
		for n := from; n <= to; n++ {
			if _, twice := plan[f[0]][n]; twice {
				return nil, fmt.Errorf("%s:%d: line %[4]d of %[3]s has two entries", path, i+1, f[0], n)
			}
			plan[f[0]][n] = e
		}
	}
	return plan, nil
}
