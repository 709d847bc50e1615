package network

import (
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// validatorSeat describes the epoch for which this node's validator announces itself. That is the
// next epoch if the validator has a seat in the next epoch, else the current epoch.
type validatorSeat struct {
	epoch     primitives.EpochID
	has       bool
	announced bool
}

func findSeat(m *epoch.Manager, this, next primitives.EpochID, account primitives.AccountID,
	key primitives.SecretKey) (s validatorSeat) {
	if account == "" || key.IsZero() {
		return s
	}
	for _, id := range []primitives.EpochID{this, next} {
		if v, err := m.Validator(id, account); err == nil && v.PublicKey == key.PublicKey() {
			s.epoch, s.has = id, true
		}
	}
	return s
}

// announce announces this node as the validator's node, once for each epoch.
func (a *Actor) announce() {
	if !a.seat.has || a.seat.announced {
		return
	}
	a.seat.announced = true
	x := wire.NewAnnouncement(a.o.Account, a.o.Peer, a.seat.epoch, a.key())
	a.host.Post(near.AnnouncementsVerified{Good: []*wire.Announcement{x}})
}

// verifyAnnouncements verifies a peer's account announcements. An announcement is valid only if its
// epoch is known and later than the epoch of the stored announcement of the account (nearcore
// chain/client/src/view_client_actor.rs:1759). The host calls verifyAnnouncements on the host's
// goroutines.
func (a *Actor) verifyAnnouncements(j near.VerifyAnnouncements) near.AnnouncementsVerified {
	out := near.AnnouncementsVerified{From: j.From}
	e := a.o.Engine
	head := e.Head()
	var order []primitives.EpochID // known epochs in ascending order
	keys := make([]primitives.PublicKey, len(j.List))
	err := e.Epochs(func(m *epoch.Manager) error {
		this, err := m.EpochIDFromPrev(head.Hash)
		if err != nil {
			return err
		}
		next, err := m.NextEpochIDFromPrev(head.Hash)
		if err != nil {
			return err
		}
		order = append(order, head.Header().EpochID)
		for _, id := range []primitives.EpochID{this, next} {
			if id != order[len(order)-1] {
				order = append(order, id)
			}
		}
		for i, x := range j.List {
			if v, err := m.Validator(x.EpochID, x.AccountID); err == nil {
				keys[i] = v.PublicKey
			}
		}
		return nil
	})
	if err != nil {
		return out
	}
	rank := func(id primitives.EpochID) int {
		for i := range order {
			if order[i] == id {
				return i + 1
			}
		}
		return 0
	}
	for i, x := range j.List {
		known, has := j.KnownEpoch[x.AccountID]
		if keys[i] == "" || has && rank(x.EpochID) <= rank(known) {
			continue
		}
		if !x.Verify(keys[i]) {
			out.Ban = near.InvalidSignature
			return out
		}
		out.Good = append(out.Good, x)
	}
	return out
}
