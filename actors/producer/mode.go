package producer

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
)

// ErrProduction rejects an unknown mode or an interval out of bounds.
var ErrProduction = errors.New("producer: invalid block production setting")

// minInterval and maxInterval bound the time between blocks while idle, in ns.
const (
	minInterval = 1_000_000
	maxInterval = 24 * 3_600_000_000_000
)

// setProduction applies all changes of a request. If one of the changes is not allowed,
// setProduction applies none.
func (a *Actor) setProduction(m system.Request[messages.SetProduction, messages.Production]) {
	q, rules := &m.Question, a.sched.Rules()
	if err := a.requireSole(); err != nil {
		m.Reply(messages.Production{}, err)
		return
	}
	if q.Mode != nil {
		rules.Mode = production.Mode(*q.Mode)
	}
	if q.Quiet != nil {
		rules.SkipEmpty = *q.Quiet
	}
	if q.Interval != nil {
		rules.Interval = *q.Interval
	}
	if rules.Mode > production.Manual || q.Interval != nil && (rules.Interval < minInterval ||
		rules.Interval > maxInterval) {
		m.Reply(messages.Production{}, fmt.Errorf("%w: %d ns between blocks are not between %d and %d", ErrProduction,
			rules.Interval, int64(minInterval), int64(maxInterval)))
		return
	}
	a.step(production.SetRules{Rules: rules})
	m.Reply(messages.Production{Mode: byte(rules.Mode), Quiet: rules.SkipEmpty, Interval: rules.Interval}, nil)
	a.advance()
}
