package consensus

import (
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// This file is the protection against two nodes with one validator key (other chains call it
// doppelganger protection).
//
// Problem: a validator moves from neard or from another machine to this node. The record of what it
// has signed stays there. So this node could contradict signatures that it does not know.
//
// Rule: a key that is new to this node's record signs nothing for KeyWait.Blocks heights. The wait
// begins at the first head whose timestamp is not before the time at which the node first had the
// key. Older blocks do not count, so a node that still has to sync waits as long as any other. While
// the node is behind the network, the wait neither begins nor ends.
//
// Guarantee: the signatures contradict none of the other node, if that node has signed for no height
// above the end of the wait. The end is Blocks above the first block that is newer than the key's
// arrival on this node. Heights are skipped, so the other node must stop well before the end.
//
// Exceptions:
//   - A key that replaces an earlier key of the account on this node, before the epoch in which the
//     new key is valid, does not wait. No node can have signed anything valid with it.
//   - If the chain stands still for standstill, the wait is over: else a chain whose validators all
//     wait would never make a block. A later block that is older than that moment shows that this
//     node was only cut off. Then the key waits again. Only the monotonic clock of a process that
//     runs without a pause counts: neither setting the clock, nor a pause, nor a suspended machine
//     makes this time pass. An attacker that keeps all blocks from the node can make the key sign
//     on the old head. That contradicts signatures only if the other node has not stopped, which
//     the operator must ensure (docs/operate/upgrade.md).
//   - A key that has signed here waits again if this node was without it for standstill or longer
//     and the chain has grown by KeyWait.Blocks in this time. The key may have been elsewhere. This
//     also holds for a process that was paused, or a machine that was suspended, for so long. On a
//     suspended machine the monotonic clock stands still, so the wall clock counts, too. A wall
//     clock that is set forward by standstill has the same effect.
//
// The last rule also meets a validator that was only down for so long. It costs nothing: after an
// epoch without the validator, the network has removed it, and its seat comes back later than the
// wait ends.
//
// Invariants:
//   - The time and the height at which the wait began are persisted, so a restart changes neither.
//     This also holds for a time in the future. The clock was ahead then, or it is behind now, and a
//     node cannot know which. If it was ahead, the key waits for longer, and KeyWait.From ends that.
//   - While a key waits, the node behaves as without a key: it follows the chain and sends no
//     message that is signed with the key.
//
// A clock that is behind makes old blocks count. Blocks of the network are then in the future, and
// are refused, but their approvals prove that the node is behind (noteFutureBlock).
//
// Rejected: counting from the head at the start. The head may be days old, and blocks that are
// synced in minutes would count like new ones. Rejected: searching recent blocks for signatures of
// the account, as Lighthouse and CometBFT do. Endorsements and approvals that reached no block stay
// unknown. Rejected: no wait on a chain without blocks. An empty node of an old chain sees the same.

// KeyWait says when a key may sign.
type KeyWait struct {
	// Blocks is the number of heights that a new key waits. 0: it does not wait.
	Blocks primitives.Height
	// From replaces the rule: the key signs for no height below From, whether it is new or not, and
	// does not wait for anything else. 0: the rule applies.
	From primitives.Height
}

// KeyWaiting describes the wait of the key. The zero value means that the node does not wait.
type KeyWaiting struct {
	Key primitives.PublicKey // key that waits; empty: none
	// From is the height of the head at which the key begins to sign. 0: unknown, because no block
	// is newer than Seen.
	From primitives.Height
	Left primitives.Height // number of heights until From; if From is 0, the length of the wait
	// Seen is the time in ns since 1970 after which the node counts blocks. 0: From is known.
	Seen uint64
}

// keyState is how far the wait of a key is.
type keyState byte

const (
	keySeen   keyState = iota // the node has the key, and no newer block yet
	keyMarked                 // the wait has begun
	keyReady                  // the key may sign
)

// keyRecord is the wait of one key. A record of Signatures contains it.
type keyRecord struct {
	account primitives.AccountID
	key     primitives.PublicKey
	// seen is the time in ns since 1970 at which the node first had the key. If state is keyReady, it
	// is the time at which the node last had the key.
	seen  uint64
	state keyState
	// first is the height at which the wait began, if state is keyMarked. Otherwise it is the height
	// of the last head at which the key could sign; 0: none.
	first primitives.Height
}

// keyHead is what matters of a head for the wait.
type keyHead struct {
	height    primitives.Height
	timestamp uint64
	behind    bool // the head is far below the highest known block
}

// standstill returns for how long, in ns, the chain must stand still until a key no longer waits: a
// second for each height, and at least ten minutes.
func (w KeyWait) standstill() int64 {
	return int64(min(max(w.Blocks, 600), 1<<32)) * 1000 * ms
}

// maxKeys is the maximum number of recorded keys. The oldest is dropped. If it comes back, it is
// new.
const maxKeys = 64

// key returns the record of a key, and makes it if there is none. now is in ns since 1970. made
// means that the record is new.
func (s *Signatures) key(account primitives.AccountID, key primitives.PublicKey, now uint64) (r *keyRecord, made bool) {
	i := slices.IndexFunc(s.keys, func(r keyRecord) bool { return r.account == account && r.key == key })
	if i >= 0 {
		return &s.keys[i], false
	}
	x := keyRecord{account: account, key: key, seen: now}
	if s.unnamed { // the record is older than the list of keys: this key has made it
		s.unnamed, x.state = false, keyReady
	}
	if len(s.keys) >= maxKeys {
		s.keys = slices.Delete(s.keys, 0, len(s.keys)-maxKeys+1)
	}
	s.keys = append(s.keys, x)
	return &s.keys[len(s.keys)-1], true
}

// replaces returns whether the account of r has signed with another key on this node.
func (s *Signatures) replaces(r *keyRecord) bool {
	return slices.ContainsFunc(s.keys, func(o keyRecord) bool {
		return o.account == r.account && o.key != r.key && o.state == keyReady
	})
}

// take applies the rule when the node gets the key, or starts with it. last is the height of the
// last recorded signature. changed means that the record must be persisted. If the clock is behind
// the recorded time, the node cannot know for how long it was without the key. A key that has signed
// then waits for a block that is newer than that time. The wait of another key does not change.
func (r *keyRecord) take(now uint64, last primitives.Height, rule KeyWait) (changed bool) {
	switch {
	case rule.Blocks == 0 || rule.From > 0 || r.state != keyReady:
		return false
	case r.seen > now && r.seen-now > chain.AcceptableTimeDifference:
	case now >= r.seen && now-r.seen >= uint64(rule.standstill()):
		r.seen = now
	default:
		return false
	}
	r.state, r.first = keySeen, max(r.first, last)
	return true
}

// waits returns the wait before it begins.
func (r *keyRecord) waits(rule KeyWait) KeyWaiting {
	return KeyWaiting{Key: r.key, Left: rule.Blocks, Seen: r.seen}
}

// advance applies the rule at a head. unused returns whether no node can have signed with the key;
// advance calls it at most once, when the wait would begin. changed means that the record must be
// persisted. The result waiting has no Key if the key may sign.
func (r *keyRecord) advance(at keyHead, rule KeyWait, unused func() bool) (waiting KeyWaiting, changed bool) {
	height := at.height
	if rule.From > 0 {
		if height+1 < rule.From {
			return KeyWaiting{Key: r.key, From: rule.From - 1, Left: rule.From - 1 - height}, false
		}
		r.state = keyReady
		return KeyWaiting{}, false
	}
	if r.state == keyReady || rule.Blocks == 0 {
		r.state = keyReady
		return KeyWaiting{}, false
	}
	if r.state == keySeen {
		if at.timestamp < r.seen || at.behind {
			return r.waits(rule), false
		}
		if r.first > 0 && height < addHeights(r.first, rule.Blocks) || unused() {
			r.state = keyReady
			return KeyWaiting{}, true
		}
		r.state, r.first, changed = keyMarked, height, true
	}
	from := addHeights(r.first, rule.Blocks)
	switch {
	case height < from:
		return KeyWaiting{Key: r.key, From: from, Left: from - height}, changed
	case at.behind:
		return KeyWaiting{Key: r.key, From: from, Left: 1}, changed
	}
	r.state = keyReady
	return KeyWaiting{}, true
}

// addHeights returns a+b, or the largest height if the sum is above it.
func addHeights(a, b primitives.Height) primitives.Height {
	if a+b < a {
		return ^primitives.Height(0)
	}
	return a + b
}

// merge joins two records of one key. The longer wait counts.
func (r *keyRecord) merge(o *keyRecord) {
	if o.state < r.state {
		r.state, r.first = o.state, o.first
	} else if o.state == r.state {
		r.first = max(r.first, o.first)
	}
	r.seen = max(r.seen, o.seen)
}

func (r *keyRecord) size() int { return 4 + len(r.account) + 4 + len(r.key) + 8 + 1 + 8 }

func appendKeyRecord(b []byte, r *keyRecord) []byte {
	b = borsh.AppendString(borsh.AppendString(b, string(r.account)), string(r.key))
	return borsh.AppendUint64(append(borsh.AppendUint64(b, r.seen), byte(r.state)), uint64(r.first))
}

func readKeyRecord(b *borsh.Reader) (r keyRecord) {
	r.account, r.key, r.seen = primitives.AccountID(b.String()), primitives.PublicKey(b.Bytes()), b.Uint64()
	r.state = keyState(b.Byte())
	if r.state > keyReady {
		b.BadTag("Signatures key", byte(r.state))
	}
	r.first = primitives.Height(b.Uint64())
	return r
}

// IsKnownKey returns whether a validator key would not wait if a node with an encoded Signatures
// started now. now is in ns since 1970.
func IsKnownKey(
	signed []byte, account primitives.AccountID, key primitives.PublicKey, now uint64, rule KeyWait,
) (bool, error) {
	s, err := ReadSignatures(signed)
	if err != nil {
		return false, err
	}
	r, _ := s.key(account, key, now)
	r.take(now, s.last(), rule)
	return r.state == keyReady, nil
}

// WithoutKeys returns an encoded Signatures without the keys that have made them. So each key is new
// to the result. The signatures still count.
func WithoutKeys(signed []byte) ([]byte, error) {
	s, err := ReadSignatures(signed)
	if err != nil || len(signed) == 0 {
		return nil, err
	}
	// An empty list would mean that the record is older than the list, and that the next key has made
	// its signatures.
	s.keys = []keyRecord{{}}
	return s.AppendBorsh(nil), nil
}

// takeKey makes key the validator's key. The node signs with it as soon as the rule permits, which
// checkKey decides. With the zero key the node signs nothing.
func (n *Node) takeKey(key primitives.SecretKey, rule KeyWait) {
	n.setKey(primitives.SecretKey{})
	n.held, n.keyWait, n.waiting, n.stillSince, n.stillEnded = key, rule, KeyWaiting{}, n.now, 0
	if key.IsZero() {
		return
	}
	r, made := n.signed.key(n.me, key.PublicKey(), n.wallAt)
	if r.take(n.wallAt, n.signed.last(), rule) || made && rule.Blocks > 0 {
		n.save()
	}
	n.waiting = r.waits(rule)
}

// checkKey lets the validator's key sign if its wait is over at this head. id is the epoch of the
// head's children.
func (n *Node) checkKey(at *primitives.BlockHeader, id primitives.EpochID) {
	n.stillSince = n.now
	if n.waiting.Key == "" && n.stillEnded == 0 {
		return
	}
	r, _ := n.signed.key(n.me, n.held.PublicKey(), n.wallAt)
	if n.stillEnded != 0 && !n.keepSigning(r, at) {
		return
	}
	top := n.highestKnown()
	head := keyHead{at.Height, at.Timestamp, top != nil && top.Height > at.Height+maxBehind}
	waiting, changed := r.advance(head, n.keyWait, func() bool {
		return n.signed.replaces(r) && !n.isRegistered(id, r.key)
	})
	if changed {
		n.save()
	}
	if n.waiting = waiting; waiting.Key == "" {
		n.beginSigning(at.Height)
	}
}

// beginSigning lets the validator's key sign. height is the head's.
func (n *Node) beginSigning(height primitives.Height) {
	n.signed.begin(height) // another node may have endorsed chunks up to the head
	n.waiting = KeyWaiting{}
	n.setKey(n.held)
	n.witnesses.Rekey(n.held)
}

// keepSigning handles the first head after the chain stood still and the key therefore began to
// sign. If the chain has moved on without this node, the key waits again, and keepSigning returns
// false.
func (n *Node) keepSigning(r *keyRecord, at *primitives.BlockHeader) bool {
	ended := n.stillEnded
	n.stillEnded = 0
	if at.Timestamp+chain.AcceptableTimeDifference >= ended {
		r.state = keyReady
		n.save()
		return true
	}
	n.setKey(primitives.SecretKey{})
	n.witnesses.Rekey(primitives.SecretKey{})
	r.state, r.seen, r.first = keySeen, n.wallAt, 0
	n.waiting = r.waits(n.keyWait)
	n.save()
	return false
}

// maxPause is the maximum time in ns between two steps of a process that runs. Steps are at most
// housekeeping apart, unless one takes long.
const maxPause = 60 * 1000 * ms

// passTime sets the time of a step, in ns since 1970. It returns for how long the process did not
// run before, or 0 if that is at most maxPause. The monotonic clock shows a process that was
// stopped. Of a suspended machine, only the wall clock shows it.
func (n *Node) passTime(now int64) (pause int64) {
	pause, n.now = now-n.now, now
	wall := n.wall()
	if wall > n.wallAt {
		pause = max(pause, int64(min(wall-n.wallAt, 1<<62)))
	}
	if n.wallAt = wall; pause <= maxPause {
		return 0
	}
	return pause
}

// resumeKey is called before a step that comes after a pause of the process, which the wall clock
// may have counted alone. The node must first hear whether the chain has moved on. So no standstill
// includes a pause, and after a long pause a key that may sign is treated as after a restart.
func (n *Node) resumeKey(pause int64) {
	n.stillSince = n.now
	rule := n.keyWait
	if n.public == "" || n.head == nil || rule.Blocks == 0 || rule.From > 0 || pause < rule.standstill() {
		return
	}
	r, _ := n.signed.key(n.me, n.public, n.wallAt)
	r.seen = min(r.seen, n.wallAt-min(n.wallAt, uint64(pause)))
	n.rekey(KeyChanged{Key: n.held, Wait: rule})
}

// watchKey ends the wait of a key on a chain that stands still, and records from time to time that
// the node has a key that may sign.
func (n *Node) watchKey() {
	rule := n.keyWait
	if n.held.IsZero() || n.head == nil || rule.Blocks == 0 || rule.From > 0 {
		return
	}
	if n.waiting.Key != "" {
		if n.now-n.stillSince < rule.standstill() || n.isBehind() {
			return
		}
		n.stillEnded = n.wallAt
		n.beginSigning(n.head.height)
		n.signHead()
		return
	}
	r, _ := n.signed.key(n.me, n.public, n.wallAt)
	if r.state == keyReady && n.wallAt > r.seen+uint64(rule.standstill()/8) {
		n.save()
	}
}

// noteFutureBlock notes the height of a block that is refused because it is ahead of this machine's
// clock. If the clock is wrong, the block shows that the head is old.
func (n *Node) noteFutureBlock(h *primitives.BlockHeader, err error) {
	if n.waiting.Key != "" && errors.Is(err, chain.InvalidBlockFutureTime) {
		n.noteHigherBlock(h)
	}
}

// recordKey records, before the record is persisted, that the node has the key that signs.
func (n *Node) recordKey() {
	if n.public == "" || n.head == nil {
		return
	}
	if r, _ := n.signed.key(n.me, n.public, n.wallAt); r.state == keyReady {
		r.seen, r.first = n.wallAt, n.head.height
	}
}

// isRegistered returns whether the account is a validator with this key in an epoch. If that is
// unknown, isRegistered returns true.
func (n *Node) isRegistered(id primitives.EpochID, key primitives.PublicKey) (registered bool) {
	err := n.e.Epochs(func(m *epoch.Manager) error {
		info, err := m.EpochInfo(id)
		if err != nil {
			return err
		}
		for i := range info.Validators {
			v := &info.Validators[i]
			registered = registered || v.AccountID == n.me && v.PublicKey == key
		}
		return nil
	})
	return registered || err != nil
}

// SigningKey returns the key with which the node signs. Zero: it signs nothing.
func (n *Node) SigningKey() primitives.SecretKey { return n.o.Key }

// KeyWaiting returns whether the validator's key waits, and how long.
func (n *Node) KeyWaiting() KeyWaiting { return n.waiting }
