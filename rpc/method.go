package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Method declares one method. The method's routes, metrics and table-driven tests follow from this
// declaration.
type Method[P any] struct {
	Name, Doc string
	Aliases   []string // older names of the method, mostly EXPERIMENTAL_...
	Faults    []*Fault // all faults that the method may return; an error that is not listed becomes INTERNAL_ERROR
	// Waits marks methods that may wait for the chain. Calls of these methods count against
	// max_parked_requests.
	Waits bool
	// SpecStatus marks the method whose replies are always HTTP 200 under rpc.http_status "spec".
	SpecStatus bool
	// Heavy marks methods whose cost grows with the size of blocks. Calls of these methods take turns of the
	// heavy limit.
	Heavy bool
	// Simulates marks methods that execute transactions. Calls of such methods count against
	// max_simulations.
	Simulates bool
	// Sandbox marks methods that control a sandbox. These methods are switched off if
	// troupe.rpc.sandbox is false.
	Sandbox bool
	// Own marks methods that nearcore does not have. Own methods return an error for unknown
	// members of their parameters. nearcore's methods ignore unknown members, as in nearcore.
	Own bool
	// Ignores has the names of members that are accepted but not read.
	Ignores []string
	// Patience is the longest wait of the method; 0: PollingTimeout.
	Patience time.Duration
	// Submits marks methods that submit a signed transaction and wait for it. In a batch, their
	// calls for one signer and key run in order.
	Submits bool
	// Parse reads the parameters.
	Parse func(val) (P, error)
	// Handle appends the result's JSON to b.
	Handle func(c *call, b []byte, p *P) ([]byte, error)
	// Label returns the name of a call in metrics, which must be one of Labels. nil: the label is
	// the name of the method.
	Label  func(p *P) string
	Labels []string
}

// call is the context of one run of a handler.
type call struct {
	*Server
	ctx   context.Context // ends when the request may wait no longer or the server stops
	conn  net.Conn        // connection of the request; nil: none
	x     *exchange
	leave func() // ends the turn of heavyLimiter that this call holds; nil: none

	key      any   // key of the request in replySizes; nil: the reply is small
	borrowed int64 // bytes that count as in memory for the data from which the reply is made
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
	labels     []string // labels in metrics besides name and aliases; empty: none
	own        bool
	parse      func(params val) error
	// run appends the result. label is the result of Label; empty if the parameters could not be
	// read.
	run func(c *call, b []byte, params val) (out []byte, label string, err error)
}

// route returns the method without its type parameter.
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

// read parses the parameters. For a method of our own, read returns an error if the parameters have
// a member that Parse has not read.
func (m *Method[P]) read(params val) (p P, err error) {
	if !m.Own || params.kind() != kObject {
		return m.Parse(params)
	}
	d := *params.doc // a copy, because concurrent requests of a batch share the document
	d.asks, d.root = true, params.at
	params.doc = &d
	p, err = m.Parse(params)
	var missing missingField
	if err == nil || errors.As(err, &missing) { // a missing member may be present under a misspelt name
		if unknown := unknownMember(params, slices.Concat(d.asked, m.Ignores)); unknown != nil {
			return p, unknown
		}
	}
	return p, err
}

// declared converts errors that the method does not declare into INTERNAL_ERROR.
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

// noParams are the parameters of methods that take none. Parameters in the request are ignored.
type noParams struct{}

func parseNone(val) (noParams, error) { return noParams{}, nil }

// parseNothing is parseNone for methods of our own. It returns an error for parameters that are not
// empty.
func parseNothing(v val) (p struct{}, err error) {
	switch k := v.kind(); {
	case k == kArray && v.len() > 0:
		return p, tooLong(v.len())
	case k != kNull && k != kArray && k != kObject:
		return p, typeError(v, "no parameters")
	}
	return p, nil
}

// parseFailure is the error of invalid parameters or an invalid envelope: PARSE_ERROR.
type parseFailure struct{ text string }

func (e *parseFailure) Error() string { return e.text }
