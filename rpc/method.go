package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Method declares one method. Its routes, metrics and table-driven tests follow from it.
type Method[P any] struct {
	Name, Doc string
	Aliases   []string // older spellings, EXPERIMENTAL_...
	Faults    []*Fault // all that it may return; any other failure is INTERNAL_ERROR
	// Waits marks methods that may wait for the chain. They count against max_parked_requests.
	Waits bool
	// SpecStatus marks the method whose replies are always HTTP 200 under rpc.http_status "spec".
	SpecStatus bool
	// Heavy marks methods whose cost grows with the size of blocks. They take turns of the heavy
	// limit.
	Heavy bool
	// Simulates marks methods that execute transactions. They count against max_simulations.
	Simulates bool
	// Sandbox marks methods that control a sandbox chain. troupe.rpc.sandbox switches them off.
	Sandbox bool
	// Own marks methods that nearcore does not have. Unknown members of their parameters are
	// refused; for nearcore's methods they are ignored, as in nearcore.
	Own bool
	// Ignores names members that are accepted and not read.
	Ignores []string
	// Patience is how long a wait may last, 0: PollingTimeout.
	Patience time.Duration
	// Submits marks methods that submit a signed transaction and wait for it. In a batch, the calls
	// of such methods for one signer run in order.
	Submits bool
	// Parse reads the parameters.
	Parse func(val) (P, error)
	// Handle appends the result's JSON to b.
	Handle func(c *call, b []byte, p *P) ([]byte, error)
	// Label returns the method's name in metrics, which must be one of Labels. nil: the name does
	// not depend on the parameters.
	Label  func(p *P) string
	Labels []string
}

// call is the context of one run of a handler.
type call struct {
	*Server
	ctx   context.Context // ends with the wait or the server
	conn  net.Conn        // of the request; nil: none
	x     *exchange
	leave func() // gives back the turn of the heavy limit; nil: it has none

	key      any   // what is asked for, as a key of replySizes; nil: the reply is small
	borrowed int64 // bytes counted for the data that the reply is made of
}

// route is a Method without its type parameter.
type route struct {
	name, doc  string
	aliases    []string
	faults     []*Fault
	waits      bool
	specStatus bool
	heavy      bool
	simulates  bool
	submits    bool
	sandbox    bool
	patience   time.Duration
	labels     []string // of metrics; empty: the name under which it was called
	own        bool
	parse      func(params val) error
	// run appends the result. label is what Label returned, "" before the parameters are read.
	run func(c *call, b []byte, params val) (out []byte, label string, err error)
}

// route erases the type of the parameters.
func (m Method[P]) route() route {
	r := route{name: m.Name, doc: m.Doc, aliases: m.Aliases, faults: m.Faults, waits: m.Waits, specStatus: m.SpecStatus,
		heavy: m.Heavy, simulates: m.Simulates, submits: m.Submits, sandbox: m.Sandbox, own: m.Own, patience: m.Patience, labels: m.Labels}
	r.parse = func(params val) error {
		_, err := m.read(params)
		return err
	}
	r.run = func(c *call, b []byte, params val) ([]byte, string, error) {
		p, err := m.read(params)
		c.x.leaveTurn()
		if err != nil {
			return b, "", &parseFailure{parseErrorText(err)}
		}
		label := ""
		if m.Label != nil {
			label = m.Label(&p)
		}
		out, err := m.Handle(c, b, &p)
		if err != nil {
			err = r.declared(err)
		}
		return out, label, err
	}
	return r
}

// read parses the parameters. For a method of our own it refuses members that Parse has not asked
// for.
func (m *Method[P]) read(params val) (p P, err error) {
	if !m.Own || params.kind() != kObject {
		return m.Parse(params)
	}
	d := *params.doc // concurrent requests of a batch share the document
	d.asks, d.root = true, params.at
	params.doc = &d
	p, err = m.Parse(params)
	var missing missingField
	if err == nil || errors.As(err, &missing) { // a missing member may be a misspelt one
		if unknown := unknownMember(params, slices.Concat(d.asked, m.Ignores)); unknown != nil {
			return p, unknown
		}
	}
	return p, err
}

// declared turns errors that the method does not declare into INTERNAL_ERROR.
func (r *route) declared(err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return internal("", err)
	}
	if f.fault != nil && !slices.Contains(r.faults, f.fault) {
		return internal("", fmt.Errorf("%s is no fault of %s: %s", f.fault.Name, r.name, f.text))
	}
	return f
}

// noParams are the parameters of methods that take none. Whatever is sent is ignored.
type noParams struct{}

func parseNone(val) (noParams, error) { return noParams{}, nil }

// parseNothing is parseNone for methods of our own: anything that is not empty is refused.
func parseNothing(v val) (p struct{}, err error) {
	switch k := v.kind(); {
	case k == kArray && v.len() > 0:
		return p, tooLong(v.len())
	case k != kNull && k != kArray && k != kObject:
		return p, typeError(v, "no parameters")
	}
	return p, nil
}

// parseFailure is a refusal of parameters or of the envelope: PARSE_ERROR.
type parseFailure struct{ text string }

func (e *parseFailure) Error() string { return e.text }
