package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/troupe-chain/troupe/primitives"
)

// MaxAccountData is the longest payload of account data, in bytes; who sends a longer one is
// banned.
const MaxAccountData = 10_000

// SignedPayload is a payload that a validator key has signed as it stands. It is passed on as it
// came: an encoding of what was read from it need not be the same.
type SignedPayload struct {
	Payload   []byte
	Signature primitives.Signature // over Payload, unhashed
}

// PeerAddr is where a peer can be dialled.
type PeerAddr struct {
	Addr   netip.AddrPort
	PeerID PeerID
}

// AccountData says by which node, and by which proxies of it, a validator is reached. The highest
// (Version, Timestamp) counts.
type AccountData struct {
	SignedPayload
	PeerID     PeerID
	AccountKey primitives.PublicKey // which signs
	Proxies    []PeerAddr           // none: through T2 only
	Version    uint64
	Timestamp  Timestamp
	// what a node of ours in a network that hurries holds at all times; neard knows no such field,
	// and skips it
	Holds []primitives.ShardID
}

// holdsField is far from those that neard has: the shards, u64 each.
const holdsField = 1001

// OwnedAccount proves to the other side of a handshake that the sender has a validator key.
type OwnedAccount struct {
	SignedPayload
	AccountKey primitives.PublicKey
	PeerID     PeerID
	Timestamp  Timestamp
}

// AccountsData brings account data, all of it or new ones, and may ask for all of the receiver's.
type AccountsData struct {
	Data                            []*AccountData
	Incremental, RequestingFullSync bool
}

// Kind returns KindAccountsData.
func (*AccountsData) Kind() Kind { return KindAccountsData }

// Verify tells whether the payload is signed by key.
func (p *SignedPayload) Verify(key primitives.PublicKey) bool {
	return p.Signature.Verify(p.Payload, key)
}

// IsNewer tells whether d replaces old.
func (d *AccountData) IsNewer(old *AccountData) bool {
	if d.Version != old.Version {
		return d.Version > old.Version
	}
	return d.Timestamp.Compare(old.Timestamp) > 0
}

// Sign fills the payload and signs it with key, whose public key becomes the account key. A payload
// above MaxAccountData is an error: nobody would take it.
func (d *AccountData) Sign(key primitives.SecretKey) error {
	d.AccountKey = key.PublicKey()
	d.Payload = d.appendPayload(nil)
	if len(d.Payload) > MaxAccountData {
		return fmt.Errorf("account data of %d bytes, at most %d", len(d.Payload), MaxAccountData)
	}
	d.Signature = key.Sign(d.Payload)
	return nil
}

// appendPayload appends AccountKeyPayload, the fields in the order in which neard writes them.
func (d *AccountData) appendPayload(b []byte) []byte {
	return appendMessage(b, 2, func(b []byte) []byte {
		b = appendBorsh(appendBorsh(b, 5, d.PeerID), 6, d.AccountKey)
		for _, p := range d.Proxies {
			b = appendMessage(b, 2, func(b []byte) []byte { return appendBorsh(appendProtoAddr(b, 1, p.Addr), 2, p.PeerID) })
		}
		var holds []byte
		for _, id := range d.Holds {
			holds = binary.LittleEndian.AppendUint64(holds, uint64(id))
		}
		return appendBytes(appendTimestamp(appendUint(b, 7, d.Version), 4, d.Timestamp), holdsField, holds)
	})
}

// Sign fills the payload and signs it with key, whose public key becomes the account key.
func (o *OwnedAccount) Sign(key primitives.SecretKey) {
	o.AccountKey = key.PublicKey()
	o.Payload = o.appendPayload(nil)
	o.Signature = key.Sign(o.Payload)
}

func (o *OwnedAccount) appendPayload(b []byte) []byte {
	return appendMessage(b, 3, func(b []byte) []byte {
		return appendTimestamp(appendBorsh(appendBorsh(b, 1, o.AccountKey), 2, o.PeerID), 3, o.Timestamp)
	})
}

func (p *SignedPayload) appendFields(b []byte) []byte {
	return appendBorsh(appendBytes(b, 1, p.Payload), 2, p.Signature)
}

func (m *AccountsData) appendFields(b []byte) []byte {
	for _, d := range m.Data {
		b = appendMessage(b, 1, d.SignedPayload.appendFields)
	}
	return appendBool(appendBool(b, 2, m.Incremental), 3, m.RequestingFullSync)
}

// payload reads a signed payload and returns the last message in it, with its field.
func (c *conversion) payload(in []byte) (p SignedPayload, of item) {
	for it := range accountKeySignedPayload.items(in) {
		if it.num == 1 {
			p.Payload = bytes.Clone(it.b) // it is kept, and its frame may be long
		}
	}
	if err := accountKeyPayload.check(p.Payload); err != nil {
		c.fail("payload: %w", err)
		return p, of
	}
	for of = range accountKeyPayload.items(p.Payload) {
	}
	p.Signature = *borshOf[primitives.Signature](c, accountKeySignedPayload, in, 2)
	return p, of
}

func (c *conversion) accountData(in []byte) *AccountData {
	p, of := c.payload(in)
	if of.num != 2 {
		c.fail("payload is no account data")
		return nil
	}
	d := &AccountData{SignedPayload: p}
	d.PeerID = *borshOf[PeerID](c, accountData, of.b, 5)
	d.AccountKey = *borshOf[primitives.PublicKey](c, accountData, of.b, 6)
	for it := range c.items(accountData, of.b) {
		switch it.num {
		case 2:
			a := PeerAddr{Addr: c.protoAddr(c.sub(peerAddr, it.b, 1))}
			a.PeerID = *borshOf[PeerID](c, peerAddr, it.b, 2)
			d.Proxies = append(d.Proxies, a)
		case 7:
			d.Version = it.v
		case holdsField:
			d.Holds = nil
			for b := it.b; len(it.b)%8 == 0 && len(b) > 0; b = b[8:] { // else it is somebody else's
				d.Holds = append(d.Holds, primitives.ShardID(binary.LittleEndian.Uint64(b)))
			}
		}
	}
	d.Timestamp = c.timestamp(c.sub(accountData, of.b, 4))
	return d
}

func (c *conversion) ownedAccount(in []byte) *OwnedAccount {
	p, of := c.payload(in)
	if of.num != 3 {
		c.fail("payload is no owned account")
		return nil
	}
	o := &OwnedAccount{SignedPayload: p}
	o.AccountKey = *borshOf[primitives.PublicKey](c, ownedAccount, of.b, 1)
	o.PeerID = *borshOf[PeerID](c, ownedAccount, of.b, 2)
	o.Timestamp = c.timestamp(c.sub(ownedAccount, of.b, 3))
	return o
}

func readAccountsData(in []byte) (Message, error) {
	m, c := new(AccountsData), conversion{}
	for it := range c.items(accountsData, in) {
		switch it.num {
		case 1:
			m.Data = append(m.Data, c.accountData(it.b))
		case 2:
			m.Incremental = it.v != 0
		case 3:
			m.RequestingFullSync = it.v != 0
		}
	}
	return c.done(m)
}
