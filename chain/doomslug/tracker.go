package doomslug

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// Bounds (nearcore doomslug.rs).
const (
	MaxAhead  = 10_000 // heights above the tip for which approvals are kept
	MaxBehind = 20     // heights below the tip for which approvals are kept
	MaxSteps  = 20     // approvals that one Tick returns at most
)

// Delays are the consensus delays of config.json, in ns.
type Delays struct {
	Endorsement int64 // min_block_production_delay: time from a new tip to its approval
	Skip        int64 // max_block_production_delay: time from a new tip to the first skip
	MaxWait     int64 // max_block_wait_delay: the maximum skip delay
	// ChunkWait is a fraction of the skip delay: numerator and denominator. A block with enough
	// approvals waits for missing chunks for this time. A denominator of 0 counts as 1.
	ChunkWait [2]uint64
}

// skip returns the delay after which a node skips a height. n is the number of heights from the
// final block to that height (nearcore's T(n)).
func (d *Delays) skip(n primitives.Height) int64 {
	step := d.Skip / 10
	extra := int64(min(max(n, 2)-2, 1<<20))
	if step > 0 && extra > (d.MaxWait-d.Skip)/step { // avoids an overflow of the sum below
		return d.MaxWait
	}
	return min(d.MaxWait, d.Skip+step*extra)
}

// Proposal is an approval that the caller has to sign. The caller writes LargestTarget to disk
// before it sends the approval.
type Proposal struct {
	Inner         primitives.ApprovalInner
	Target        primitives.Height
	LargestTarget primitives.Height
}

// Tracker is Doomslug's state machine. It is not safe for concurrent use.
type Tracker struct {
	delays          Delays
	tip             primitives.Hash
	tipHeight       primitives.Height
	finalHeight     primitives.Height
	pending         bool // this node has not approved the tip yet
	lastEndorsement int64
	timerStarted    int64
	timerHeight     primitives.Height
	largestTarget   primitives.Height
	largestReady    primitives.Height
	largestApproval primitives.Height // the highest target of a counted approval
	jump            primitives.Height // the target of the last SkipTo
	heights         map[primitives.Height]*heightVotes
}

type heightVotes struct {
	byInner map[primitives.ApprovalInner]*votes
	last    map[primitives.AccountID]primitives.ApprovalInner
}

type votes struct {
	approvers  []chain.Approver
	signatures []primitives.Signature // by approver; empty: no approval of the approver has arrived
	readySince int64
	ready      bool
}

// New returns a tracker without a tip. largestTarget is the last Proposal.LargestTarget that was
// written to disk, or 0 for a new node. now is the time in ns.
func New(delays Delays, largestTarget primitives.Height, now int64) *Tracker {
	return &Tracker{delays: delays, largestTarget: largestTarget, lastEndorsement: now, timerStarted: now,
		heights: map[primitives.Height]*heightVotes{}}
}

// SetDelays replaces the delays.
func (t *Tracker) SetDelays(d Delays) { t.delays = d }

// Tip sets the head and restarts the timer. final is the height of the head's last final block.
func (t *Tracker) Tip(hash primitives.Hash, height, final primitives.Height, now int64) {
	t.tip, t.tipHeight, t.finalHeight = hash, height, final
	t.timerHeight, t.timerStarted, t.pending = height+1, now, true
	for h := range t.heights {
		if h+MaxBehind <= height || h > height+MaxAhead {
			delete(t.heights, h)
		}
	}
}

// Tick returns the approvals that are due: first the approval of the tip, then those that skip
// heights. If force is set, this node approves the tip without delay, as instant and manual block
// production need.
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
	return Proposal{Inner: primitives.NewApprovalInner(t.tip, t.tipHeight, target), Target: target,
		LargestTarget: t.largestTarget}
}

// SkipTo skips all heights below a target height at once (fast-forward), and returns the approval
// for the target. Vote then keeps approvals for the target even if the target is more than MaxAhead
// above the tip. When the block of the target height becomes the tip, this node approves that block
// after the usual delay, counted from now.
func (t *Tracker) SkipTo(to primitives.Height, now int64) Proposal {
	t.timerHeight, t.timerStarted, t.pending, t.jump, t.lastEndorsement = to, now, false, to, now
	t.largestTarget = max(to, t.largestTarget)
	return t.propose(to)
}

// Next returns the time in ns at which the next approval is due.
func (t *Tracker) Next() int64 {
	next := t.timerStarted + t.delays.skip(t.timerHeight-min(t.timerHeight, t.finalHeight))
	if t.pending {
		next = min(next, t.lastEndorsement+t.delays.Endorsement)
	}
	return next
}

// Vote counts an approval with a verified signature. Vote returns false if it ignored the approval.
// approvers are the approvers of the block that the approval is for. If an account sends two
// approvals for one target, the second replaces the first.
func (t *Tracker) Vote(a *primitives.Approval, approvers []chain.Approver, now int64) bool {
	if a.Target < t.tipHeight || a.Target > t.tipHeight+MaxAhead && a.Target != t.jump {
		return false
	}
	if slotOf(approvers, a.AccountID) < 0 {
		return false
	}
	h := t.heights[a.Target]
	if h == nil {
		h = &heightVotes{byInner: map[primitives.ApprovalInner]*votes{},
			last: map[primitives.AccountID]primitives.ApprovalInner{}}
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
	// The first approval has determined the list of approvers. A second approval that skips to that
	// height may be based on a block of another branch, with a different list of approvers.
	if slot := slotOf(v.approvers, a.AccountID); slot >= 0 {
		v.signatures[slot] = a.Signature
	}
	t.largestApproval = max(t.largestApproval, a.Target)
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

// update returns whether the approvals are sufficient, and records since when. The approving stake
// must exceed floor(2*total/3) of the current epoch's stake. If the approvers have stake in the
// next epoch, their stake there must also exceed floor(2*total/3) of the next epoch's stake.
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

// Ready returns whether a block of the target height can be produced on the tip. The approvals of
// that height must be sufficient. Either all chunks of the block must be available (chunks), or the
// wait for chunks must be over. If only chunks are missing, wait is the time in ns at which to call
// again. Otherwise wait is 0.
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

// Approvals returns the signatures for a block of the target height on the tip, by approver. An
// approver without an approval has an empty string.
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

// Height returns the tip's height. TimerHeight returns the height that is skipped when
// the timer expires. LargestReady returns the highest height with sufficient approvals.
// LargestTarget returns the highest height that this node ever approved.
func (t *Tracker) Height() primitives.Height       { return t.tipHeight }
func (t *Tracker) TimerHeight() primitives.Height  { return t.timerHeight }
func (t *Tracker) LargestReady() primitives.Height { return t.largestReady }

// LargestApproval returns the highest height with an approval.
func (t *Tracker) LargestApproval() primitives.Height { return t.largestApproval }
func (t *Tracker) LargestTarget() primitives.Height   { return t.largestTarget }
