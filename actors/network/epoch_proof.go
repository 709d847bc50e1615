package network

import (
	"errors"

	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// maxProofAge is the maximum number of epochs from the end of an epoch sync proof to the head of
// the peer that sends the proof (nearcore sync/epoch.rs).
const maxProofAge = 3

// snapshotPeriod is the interval in ms at which the list of served state snapshots is read.
const snapshotPeriod = 1000

// announceSnapshots updates the server's list of state snapshots, which the server announces to
// peers.
func (a *Actor) announceSnapshots() {
	list, err := a.snapshots.List()
	if err != nil {
		a.o.Log.WithError(err).Warn("network: list the state snapshots that this node can serve")
		return
	}
	a.server.state.setSnapshots(list)
}

// checkHeadersApart updates headersApart.
func (a *Actor) checkHeadersApart() {
	apart, err := a.o.Engine.HeaderChain().IsApart()
	if err != nil {
		a.o.Log.WithError(err).Error("network: find out whether a gap separates the headers from the blocks")
		return
	}
	a.headersApart = apart
}

// epochLength returns the length of the head's epoch, in heights.
func epochLength(e *engine.Engine) (primitives.Height, error) {
	var length primitives.Height
	err := e.Epochs(func(m *epoch.Manager) error {
		_, n, _, err := m.EpochSpan(e.Head().Hash)
		length = primitives.Height(n)
		return err
	})
	return length, err
}

// proofResult is a message to self: an epoch sync proof has been verified.
type proofResult struct {
	from wire.PeerID
	err  error
}

// errProofAge means that an epoch sync proof ends too close to the sending peer's head, or too far
// below that head.
var errProofAge = errors.New("network: the last block of the epoch sync proof is too close to the head " +
	"of the peer that sent the proof, or too far below that head")

// epochProof verifies a requested epoch sync proof outside the mailbox.
func (a *Actor) epochProof(from wire.PeerID, packed []byte) {
	claimed, expected := a.sync.ExpectsProof(from)
	if !expected {
		return
	}
	a.step(blocksync.ProofArrived{From: from})
	a.o.Log.WithField("peer", from).Infof("epoch sync proof of %d bytes received: verifying its signatures", len(packed))
	self, e := a.self, a.o.Engine
	go func() {
		m := proofResult{from: from}
		defer func() {
			if p := recover(); p != nil {
				m.err = errOwnFailure
				a.o.Status.note("a proof of epochs", p)
			}
			self(m)
		}()
		var p *headerchain.EpochProof
		if p, m.err = statesync.UnpackProof(packed); m.err != nil {
			return
		}
		var length primitives.Height
		if length, m.err = epochLength(e); m.err != nil {
			return
		}
		first := p.Current.First.Height
		if first+max(length, e.Chain().ValidityPeriod) >= claimed || first+maxProofAge*length < claimed {
			m.err = errProofAge
			return
		}
		m.err = e.HeaderChain().Jump(p)
	}()
}

// isBadProof returns whether a proof is its sender's fault. An unknown variant of an enum is not: a
// peer with a newer protocol may send headers of a version that this program does not know. neard
// bans no peer for a proof (nearcore chain/client/src/sync/epoch.rs:605).
func isBadProof(err error) bool {
	return !errors.As(err, new(*borsh.TagError)) &&
		(errors.Is(err, headerchain.ErrProof) || errors.Is(err, statesync.ErrPacked))
}

func (a *Actor) proofDone(m *proofResult) {
	ev := blocksync.Proved{From: m.from, Used: m.err == nil, Bad: isBadProof(m.err)}
	log := a.o.Log.WithField("peer", m.from)
	if errors.Is(m.err, storage.ErrFailed) {
		a.ownFailure("a proof of epochs", m.err)
	}
	if errors.Is(m.err, headerchain.ErrVersion) {
		ev.Newer = true
		log.WithError(m.err).Warn("epoch sync proof not used: this program must be upgraded first")
	} else if m.err != nil {
		log.WithError(m.err).Info("epoch sync proof rejected")
	} else {
		log.WithField("height", a.headersAt()).Infof("epoch sync proof accepted: requests the headers from there up to block %d", a.sync.Best())
	}
	a.path.known = false
	a.checkHeadersApart()
	a.step(ev)
}
