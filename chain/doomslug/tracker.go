package doomslug

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// Bounds (nearcore doomslug.rs).
const (
	MaxAhead  = 10_000 // heights above the tip for which votes are kept
	MaxBehind = 20     // heights below the tip for which votes are kept
	MaxSteps  = 20     // approvals a tick may make
)

// Delays are the consensus times of config.json, in ns.
type Delays struct {
	Endorsement int64 // min_block_production_delay: from a tip to its endorsement
	Skip        int64 // max_block_production_delay: from a tip to the first skip
	MaxWait     int64 // max_block_wait_delay: what the skip delay grows to
	// ChunkWait is the share of the skip delay, as numerator and denominator, that a ready block waits for its chunks.
	ChunkWait [2]uint64
}

// skip is T(n): how long height final+n may take.
func (d *Delays) skip(n primitives.Height) int64 {
	step := d.Skip / 10
	extra := int64(min(max(n, 2)-2, 1<<20))
	if step > 0 && extra > (d.MaxWait-d.Skip)/step { // the sum may be beyond an int64
		return d.MaxWait
	}
	return min(d.MaxWait, d.Skip+step*extra)
}

// Proposal is an approval for the host to sign: first LargestTarget goes to disk, then the vote goes out.
type Proposal struct {
	Inner         primitives.ApprovalInner
	Target        primitives.Height
	LargestTarget primitives.Height
}

// Tracker is the state machine. It is not safe for concurrent use.
type Tracker struct {
	delays          Delays
	tip             primitives.Hash
	tipHeight       primitives.Height
	finalHeight     primitives.Height
	pending         bool // the tip's endorsement is still to be sent
	lastEndorsement int64
	timerStarted    int64
	timerHeight     primitives.Height
	largestTarget   primitives.Height
	largestReady    primitives.Height
	jump            primitives.Height // of SkipTo
	heights         map[primitives.Height]*heightVotes
}

type heightVotes struct {
	byInner map[primitives.ApprovalInner]*votes
	last    map[primitives.AccountID]primitives.ApprovalInner
}

type votes struct {
	approvers  []chain.Approver
	signatures []primitives.Signature // by approver; empty string: none
	readySince int64
	ready      bool
}

// New returns a tracker without a tip. largestTarget is the height last written to disk, 0 for a new node.
func New(delays Delays, largestTarget primitives.Height, now int64) *Tracker {
	return &Tracker{delays: delays, largestTarget: largestTarget, lastEndorsement: now, timerStarted: now,
		heights: map[primitives.Height]*heightVotes{}}
}

// SetDelays replaces the delays.
func (t *Tracker) SetDelays(d Delays) { t.delays = d }

// Tip sets the canonical head and restarts the timer.
func (t *Tracker) Tip(hash primitives.Hash, height, final primitives.Height, now int64) {
	t.tip, t.tipHeight, t.finalHeight = hash, height, final
	t.timerHeight, t.timerStarted, t.pending = height+1, now, true
	for h := range t.heights {
		if h+MaxBehind <= height || h > height+MaxAhead {
			delete(t.heights, h)
		}
	}
}

// Tick returns the approvals that are due: the tip's endorsement, then skips. force sends the endorsement without its delay
// (instant and manual block production).
func (t *Tracker) Tick(now int64, force bool) []Proposal {
	var out []Proposal
	for range MaxSteps {
		if t.pending && (force || now >= t.lastEndorsement+t.delays.Endorsement) {
			if t.tipHeight >= t.largestTarget {
				t.largestTarget = t.tipHeight + 1
				out = append(out, t.propose(t.tipHeight+1))
			}
			t.lastEndorsement, t.pending = now, false
		}
		delay := t.delays.skip(t.timerHeight - min(t.timerHeight, t.finalHeight))
		if now < t.timerStarted+delay {
			break
		}
		t.largestTarget = max(t.timerHeight+1, t.largestTarget)
		out = append(out, t.propose(t.timerHeight+1))
		t.timerStarted += delay
		t.timerHeight++
	}
	return out
}

func (t *Tracker) propose(target primitives.Height) Proposal {
	return Proposal{Inner: primitives.NewApprovalInner(t.tip, t.tipHeight, target), Target: target, LargestTarget: t.largestTarget}
}

// SkipTo says that heights up to to-1 are passed over at once (fast-forward): it proposes the approval for to, for which votes are kept
// however far ahead it is. The endorsement of the block at that height has its delay from now on.
func (t *Tracker) SkipTo(to primitives.Height, now int64) Proposal {
	t.timerHeight, t.timerStarted, t.pending, t.jump, t.lastEndorsement = to, now, false, to, now
	t.largestTarget = max(to, t.largestTarget)
	return t.propose(to)
}

// Next is when the next approval is due.
func (t *Tracker) Next() int64 {
	next := t.timerStarted + t.delays.skip(t.timerHeight-min(t.timerHeight, t.finalHeight))
	if t.pending {
		next = min(next, t.lastEndorsement+t.delays.Endorsement)
	}
	return next
}

// Vote counts an approval, whose signature has been checked. approvers are the slots of the block it votes for. An account's
// newer vote for the same target replaces its older one. It reports whether the vote was taken.
func (t *Tracker) Vote(a *primitives.Approval, approvers []chain.Approver, now int64) bool {
	if a.Target < t.tipHeight || a.Target > t.tipHeight+MaxAhead && a.Target != t.jump {
		return false
	}
	if slotOf(approvers, a.AccountID) < 0 {
		return false
	}
	h := t.heights[a.Target]
	if h == nil {
		h = &heightVotes{byInner: map[primitives.ApprovalInner]*votes{}, last: map[primitives.AccountID]primitives.ApprovalInner{}}
		t.heights[a.Target] = h
	}
	if last, ok := h.last[a.AccountID]; ok {
		h.withdraw(last, a.AccountID)
	}
	h.last[a.AccountID] = a.Inner
	v := h.byInner[a.Inner]
	if v == nil {
		v = &votes{approvers: approvers, signatures: make([]primitives.Signature, len(approvers))}
		h.byInner[a.Inner] = v
	}
	// The first vote brought the list. A skip of the same height may come from another branch, with another list.
	if slot := slotOf(v.approvers, a.AccountID); slot >= 0 {
		v.signatures[slot] = a.Signature
	}
	if v.update(now) {
		t.largestReady = max(t.largestReady, a.Target)
	}
	return true
}

func slotOf(approvers []chain.Approver, id primitives.AccountID) int {
	return slices.IndexFunc(approvers, func(x chain.Approver) bool { return x.AccountID == id })
}

func (h *heightVotes) withdraw(inner primitives.ApprovalInner, account primitives.AccountID) {
	v := h.byInner[inner]
	if v == nil {
		return
	}
	left := 0
	for i := range v.approvers {
		if v.approvers[i].AccountID == account {
			v.signatures[i] = ""
		}
		if v.signatures[i] != "" {
			left++
		}
	}
	if left == 0 {
		delete(h.byInner, inner)
	}
}

// update notes the moment at which the stake sufficed; it says whether it does. More than floor(2·total/3) of this epoch's
// stake is needed, and of the next epoch's unless that is 0.
func (v *votes) update(now int64) bool {
	var have, total [2]primitives.Balance
	for i := range v.approvers {
		for e, stake := range [...]primitives.Balance{v.approvers[i].StakeThis, v.approvers[i].StakeNext} {
			total[e] = total[e].SaturatingAdd(stake)
			if v.signatures[i] != "" {
				have[e] = have[e].SaturatingAdd(stake)
			}
		}
	}
	if !chain.OverTwoThirds(have[0], total[0]) || !total[1].IsZero() && !chain.OverTwoThirds(have[1], total[1]) {
		return false
	}
	if !v.ready {
		v.ready, v.readySince = true, now
	}
	return true
}

func (t *Tracker) votesOn(target primitives.Height) *votes {
	h := t.heights[target]
	if h == nil {
		return nil
	}
	return h.byInner[primitives.NewApprovalInner(t.tip, t.tipHeight, target)]
}

// Ready tells whether a block of the target height may be made on the tip: its votes suffice, and either all its chunks are
// there or their time is up. wait is when to ask again if only chunks are missing, else 0.
func (t *Tracker) Ready(target primitives.Height, chunks bool, now int64) (ready bool, wait int64) {
	v := t.votesOn(target)
	if v == nil || !v.update(now) {
		return false, 0
	}
	if chunks {
		return true, 0
	}
	delay := t.delays.skip(t.timerHeight - min(t.timerHeight, t.finalHeight))
	until := v.readySince + delay*int64(t.delays.ChunkWait[0])/int64(max(t.delays.ChunkWait[1], 1))
	if now > until {
		return true, 0
	}
	return false, until + 1
}

// Approvals returns the signatures for a block of the target height on the tip, one slot an approver.
func (t *Tracker) Approvals(target primitives.Height, approvers []chain.Approver) []primitives.Signature {
	out := make([]primitives.Signature, len(approvers))
	v := t.votesOn(target)
	if v == nil {
		return out
	}
	for i := range approvers {
		for k := range v.approvers {
			if v.approvers[k].AccountID == approvers[i].AccountID {
				out[i] = v.signatures[k]
			}
		}
	}
	return out
}

// Height returns the tip's height, TimerHeight the one that the timer waits for, LargestReady the highest with enough votes,
// LargestTarget the highest ever voted for.
func (t *Tracker) Height() primitives.Height        { return t.tipHeight }
func (t *Tracker) TimerHeight() primitives.Height   { return t.timerHeight }
func (t *Tracker) LargestReady() primitives.Height  { return t.largestReady }
func (t *Tracker) LargestTarget() primitives.Height { return t.largestTarget }
