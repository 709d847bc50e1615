package consensus

import (
	"slices"

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
// key. Older blocks do not count, so a node that still has to sync waits as long as any other.
//
// Exception: a key that replaces an earlier key of the account on this node, before the epoch in
// which the new key is valid, does not wait. No node can have signed anything valid with it.
//
// Invariants:
//   - The time and the height at which the wait began are persisted, so a restart changes neither.
//   - A key whose wait is over never waits again, unless it has left the record (maxKeys).
//   - While a key waits, the node behaves as without a key: it follows the chain and sends no
//     message that is signed with the key.
//
// Rejected: counting from the head at the start. The head may be days old, and blocks that are
// synced in minutes would count like new ones. Rejected: searching recent blocks for signatures of
// the account, as Lighthouse and CometBFT do. Endorsements and approvals that reached no block stay
// unknown.

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
	// is newer than the time at which the node first had the key.
	From primitives.Height
	Left primitives.Height // number of heights until From; if From is 0, the length of the wait
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
	seen    uint64 // time at which the node first had the key, in ns since 1970
	state   keyState
	first   primitives.Height // height at which the wait began; 0 if state is keySeen
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

// advance applies the rule at a head with this height and timestamp. unused returns whether no node
// can have signed with the key; advance calls it at most once, when the wait would begin. changed
// means that the record must be persisted. The result waiting has no Key if the key may sign.
func (r *keyRecord) advance(
	height primitives.Height, timestamp uint64, rule KeyWait, unused func() bool,
) (waiting KeyWaiting, changed bool) {
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
		if timestamp < r.seen {
			return KeyWaiting{Key: r.key, Left: rule.Blocks}, false
		}
		if unused() {
			r.state = keyReady
			return KeyWaiting{}, true
		}
		r.state, r.first, changed = keyMarked, height, true
	}
	from := r.first + rule.Blocks
	if from < r.first { // above the largest height
		from = ^primitives.Height(0)
	}
	if height >= from {
		r.state = keyReady
		return KeyWaiting{}, true
	}
	return KeyWaiting{Key: r.key, From: from, Left: from - height}, changed
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

// IsKnownKey returns whether a validator key does not wait, by an encoded Signatures.
func IsKnownKey(signed []byte, account primitives.AccountID, key primitives.PublicKey) (bool, error) {
	s, err := ReadSignatures(signed)
	if err != nil {
		return false, err
	}
	r, _ := s.key(account, key, 0)
	return r.state == keyReady, nil
}

// takeKey makes key the validator's key. The node signs with it as soon as the rule permits, which
// checkKey decides. With the zero key the node signs nothing.
func (n *Node) takeKey(key primitives.SecretKey, rule KeyWait) {
	n.setKey(primitives.SecretKey{})
	n.held, n.keyWait, n.waiting = key, rule, KeyWaiting{}
	if key.IsZero() {
		return
	}
	r, made := n.signed.key(n.me, key.PublicKey(), uint64(n.now))
	n.waiting = KeyWaiting{Key: r.key, Left: rule.Blocks}
	if made && rule.Blocks > 0 {
		n.save()
	}
}

// checkKey lets the validator's key sign if its wait is over at this head. id is the epoch of the
// head's children.
func (n *Node) checkKey(at *primitives.BlockHeader, id primitives.EpochID) {
	if n.waiting.Key == "" {
		return
	}
	r, _ := n.signed.key(n.me, n.waiting.Key, uint64(n.now))
	waiting, changed := r.advance(at.Height, at.Timestamp, n.keyWait, func() bool {
		return n.signed.replaces(r) && !n.isRegistered(id, r.key)
	})
	if changed {
		n.save()
	}
	if n.waiting = waiting; waiting.Key != "" {
		return
	}
	n.signed.begin(at.Height) // another node may have endorsed chunks up to the head
	n.setKey(n.held)
	n.witnesses.Rekey(n.held)
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
