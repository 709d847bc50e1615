package capture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// maxListed is how many elements of a list are printed.
const maxListed = 6

// Words describes a message in one line. Keys and hashes are shortened.
func (n Names) Words(m wire.Message) string {
	switch m := m.(type) {
	case *wire.Handshake:
		return n.handshake(m)
	case *wire.HandshakeFailure:
		out := fmt.Sprintf("refuses: %v", m.Reason)
		switch m.Reason {
		case wire.VersionMismatch:
			out += fmt.Sprintf(", it speaks %d to %d", m.Oldest, m.Version)
		case wire.GenesisMismatch:
			out += fmt.Sprintf(", its chain is %s %s", m.Genesis.ChainID, hash(m.Genesis.Hash))
		case wire.InvalidTarget:
			out += ", it is " + n.peer(&m.Peer)
		}
		return out
	case *wire.LastEdge:
		return "there is a newer edge: " + n.edge(m.Edge)
	case *wire.RoutingTable:
		return join(some("edges", m.Edges, n.edge), some("announcements", m.Accounts, func(a *wire.Announcement) string {
			return fmt.Sprintf("%s at %s in epoch %s", a.AccountID, n.Of(a.PeerID), hash(primitives.Hash(a.EpochID)))
		}))
	case *wire.NonceRequest:
		return fmt.Sprintf("asks for an edge of nonce %d", m.PartialEdge.Nonce)
	case *wire.PeersRequest:
		return fmt.Sprintf("asks for %s peers and %s connected ones", limit(m.MaxPeers), limit(m.MaxDirectPeers))
	case *wire.PeersResponse:
		return join(some("peers", pointers(m.Peers), n.peer), some("connected peers", pointers(m.DirectPeers), n.peer))
	case *wire.HeadersRequest:
		return "asks for headers after the first that it knows of " + some("hashes", m.Hashes, hash)
	case *wire.Headers:
		return some("headers", m.Headers, header)
	case *wire.BlockRequest:
		return "asks for block " + hash(m.Hash)
	case *wire.Block:
		return block(m.Block)
	case *wire.Transaction:
		return transaction(m.Transaction)
	case *wire.Disconnect:
		if m.RemoveFromStore {
			return "says goodbye, and is not to be remembered"
		}
		return "says goodbye"
	case *wire.Challenge:
		return fmt.Sprintf("an obsolete challenge of %s", size(m.Borsh))
	case *wire.AccountsData:
		return n.accountsData(m)
	case *wire.SnapshotHosts:
		return some("hosts", m.Hosts, func(h *wire.SnapshotHost) string {
			return fmt.Sprintf("%s has parts of shards %s at %s, epoch %d", n.Of(h.PeerID), list(h.Shards), hash(h.SyncHash), h.EpochHeight)
		})
	case *wire.StateHeaderRequest:
		return fmt.Sprintf("asks for the state header of shard %d at %s", m.ShardID, hash(m.SyncHash))
	case *wire.StatePartRequest:
		return fmt.Sprintf("asks for part %d of the state of shard %d at %s", m.Part, m.ShardID, hash(m.SyncHash))
	case *wire.StateResponse:
		return stateResponse(m)
	case *wire.EpochSyncRequest:
		return "asks for the proof of all epochs"
	case *wire.EpochSyncResponse:
		return fmt.Sprintf("the proof of all epochs, %s compressed", size(m.Compressed))
	case *wire.OptimisticBlock:
		b := m.Block
		return fmt.Sprintf("block %d is going to be made on %s", b.Height, hash(b.PrevBlockHash))
	case *wire.Routed:
		return n.routed(m)
	}
	panic(fmt.Sprintf("capture: no text for message type %T", m))
}

func (n Names) handshake(m *wire.Handshake) string {
	out := fmt.Sprintf("%s to %s: protocol %d (from %d on), chain %s %s, height %d, shards %s", n.Of(m.Sender),
		n.Of(m.Target), m.Version, m.Oldest,
		m.Chain.Genesis.ChainID, hash(m.Chain.Genesis.Hash), m.Chain.Height, list(m.Chain.TrackedShards))
	if m.Chain.Archival {
		out += ", archival"
	}
	if m.ListenPort != 0 {
		out += fmt.Sprintf(", listens on port %d", m.ListenPort)
	}
	if o := m.OwnedAccount; o != nil {
		out += ", has the validator key " + short(o.AccountKey.String())
	}
	return out + fmt.Sprintf(", edge nonce %d", m.PartialEdge.Nonce)
}

func (n Names) edge(e *wire.Edge) string {
	if e.Active() {
		return fmt.Sprintf("%s-%s (%d)", n.Of(e.Low), n.Of(e.High), e.Nonce)
	}
	return fmt.Sprintf("%s-%s gone (%d)", n.Of(e.Low), n.Of(e.High), e.Nonce)
}

func (n Names) peer(p *wire.PeerInfo) string {
	out := n.Of(p.ID)
	if p.Addr.IsValid() {
		out += "@" + p.Addr.String()
	}
	if p.AccountID != "" {
		out += " of " + string(p.AccountID)
	}
	return out
}

func (n Names) accountsData(m *wire.AccountsData) string {
	what := "all that it knows of validators"
	if m.Incremental {
		what = "news of validators"
	}
	if m.RequestingFullSync {
		what += ", and asks for all in return"
	}
	return join(what, some("validators", m.Data, func(d *wire.AccountData) string {
		way := "no proxy"
		if len(d.Proxies) > 0 {
			way = some("proxies", d.Proxies, func(a wire.PeerAddr) string { return n.Of(a.PeerID) + "@" + a.Addr.String() })
		}
		return fmt.Sprintf("key %s is at %s, %s", short(d.AccountKey.String()), n.Of(d.PeerID), way)
	}))
}

func header(h *primitives.BlockHeader) string { return fmt.Sprintf("%d %s", h.Height, hash(h.Hash())) }

func block(b *primitives.Block) string {
	h := b.Header
	included, votes, endorsements := 0, 0, 0
	for _, c := range b.Body.Chunks {
		if c.HeightIncluded == h.Height {
			included++
		}
	}
	for _, a := range h.Approvals {
		if a != "" {
			votes++
		}
	}
	for _, shard := range b.Body.ChunkEndorsements {
		for _, s := range shard {
			if s != "" {
				endorsements++
			}
		}
	}
	at := time.Unix(0, int64(h.Timestamp)).UTC().Format("15:04:05.000")
	return fmt.Sprintf("block %d %s on %s: made at %s, %d of %d chunks, %d of %d approvals, %d endorsements, epoch %s",
		h.Height, hash(h.Hash()),
		hash(h.PrevHash), at, included, len(b.Body.Chunks), votes, len(h.Approvals), endorsements, hash(primitives.Hash(h.EpochID)))
}

func transaction(t *primitives.SignedTransaction) string {
	return fmt.Sprintf("transaction %s of %s to %s: %s, nonce %d, %d bytes", hash(t.Hash()), t.SignerID, t.ReceiverID,
		some("actions", t.Actions, func(a primitives.Action) string { return fmt.Sprintf("%T", a)[len("*primitives."):] }),
		t.Nonce.Nonce, t.Size())
}

func stateResponse(m *wire.StateResponse) string {
	out := fmt.Sprintf("state of shard %d at %s", m.ShardID, hash(m.SyncHash))
	switch {
	case m.Header != nil && m.Part != nil:
		return out + fmt.Sprintf(": header and part %d, %s", m.Part.Number, size(m.Part.Body))
	case m.Header != nil:
		return out + fmt.Sprintf(": header, chunk %d, receipts of %d blocks", chunkHeight(&m.Header.Chunk), len(m.Header.Incoming))
	case m.Part != nil:
		return out + fmt.Sprintf(": part %d, %s", m.Part.Number, size(m.Part.Body))
	}
	return out + ": nothing"
}

func chunkHeight(c *primitives.Chunk) primitives.Height { return c.Header.HeightCreated }

func hash(h primitives.Hash) string { return short(h.String()) }

func limit(n *uint32) string {
	if n == nil {
		return "all"
	}
	return strconv.FormatUint(uint64(*n), 10)
}

func size(b []byte) string {
	switch {
	case len(b) < 10<<10:
		return strconv.Itoa(len(b)) + " bytes"
	case len(b) < 10<<20:
		return strconv.Itoa(len(b)>>10) + " KiB"
	}
	return strconv.Itoa(len(b)>>20) + " MiB"
}

func pointers[T any](list []T) (out []*T) {
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

// some formats a list as its length and its first maxListed elements, each formatted by word.
func some[T any](what string, list []T, word func(T) string) string {
	if len(list) == 0 {
		return "no " + what
	}
	var words []string
	for _, x := range list[:min(len(list), maxListed)] {
		words = append(words, word(x))
	}
	out := strings.Join(words, ", ")
	if len(list) == 1 {
		return what + ": " + out
	}
	if more := len(list) - maxListed; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%d %s: %s", len(list), what, out)
}

// list formats all numbers of a list.
func list[T ~uint64](numbers []T) string {
	if len(numbers) == 0 {
		return "none"
	}
	var words []string
	for _, x := range numbers {
		words = append(words, strconv.FormatUint(uint64(x), 10))
	}
	return strings.Join(words, ",")
}

// join joins the parts that are not empty.
func join(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(p string) bool { return strings.HasPrefix(p, "no ") })
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}
