package blockdoc

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// MaxDocument is the maximum size of a block's JSON in bytes.
const MaxDocument = 256 << 20

// maxShards is the maximum number of shards in a document.
const maxShards = 1024

// Document is a block from a feed. Not safe for concurrent use.
type Document struct {
	Author primitives.AccountID
	Hash   primitives.Hash
	Block  *primitives.Block // the body contains only the chunk headers
	Shards []Shard           // shards of the block, in the order of the feed

	chunks []primitives.Hash // chunk hashes, by shard index
	raw    json.RawMessage
	size   int // total size of the JSON in bytes
}

// Shard is a shard of a block from a feed.
type Shard struct {
	ID           primitives.ShardID
	Author       primitives.AccountID
	Chunk        *primitives.ChunkHeader // nil: the block has no new chunk of the shard, or the feed lacks it
	Transactions []*Transaction
	// receipts that the shard's previous chunk sent; some feeds list receipts of other chunks here
	Receipts []*Receipt
	// Outcomes lists the outcomes of transactions, then the outcomes of receipts, each in order of
	// execution.
	Outcomes []view.OutcomeProof
	// Executed lists the receipts whose outcomes are in Outcomes, in the same order. Executed is
	// nil if the feed lacks these receipts.
	Executed []*Receipt
	Codes    [][]byte // code that was deployed to accounts in this block

	hash primitives.Hash
	raw  shardJSON
}

type blockJSON struct {
	Author primitives.AccountID `json:"author"`
	Chunks []json.RawMessage    `json:"chunks"`
	Header json.RawMessage      `json:"header"`
}

type executedJSON struct {
	Execution json.RawMessage `json:"execution_outcome"`
	Receipt   json.RawMessage `json:"receipt"`
}

type shardJSON struct {
	ID    primitives.ShardID `json:"shard_id"`
	Chunk *struct {
		Author       primitives.AccountID `json:"author"`
		Header       json.RawMessage      `json:"header"`
		Transactions []json.RawMessage    `json:"transactions"`
		Receipts     []json.RawMessage    `json:"receipts"`
	} `json:"chunk"`
	Executed []executedJSON `json:"receipt_execution_outcomes"`
	Changes  []changeJSON   `json:"state_changes"`
}

// changeJSON is a state change. Only deployed code is decoded.
type changeJSON struct {
	Type   string `json:"type"`
	Change struct {
		Code []byte `json:"code_base64"`
	} `json:"change"`
}

// ParseBlock decodes a BlockView, as in JSON-RPC and in block.json of a Lake bucket. It verifies
// the hashes of the block header and of the chunk headers. Errors: ErrForm, MismatchError.
func ParseBlock(text json.RawMessage) (*Document, error) {
	if err := bounded(text); err != nil {
		return nil, err
	}
	var j blockJSON
	var header headerJSON
	if err := parse(text, &j); err != nil {
		return nil, err
	}
	if len(j.Chunks) > maxShards {
		return nil, formf("%d chunks", len(j.Chunks))
	}
	if err := parse(j.Header, &header); err != nil {
		return nil, err
	}
	if j.Author == "" {
		return nil, formf("block %d has no author", header.Height)
	}
	d := &Document{Author: j.Author, Hash: header.Hash, raw: text, size: len(text)}
	h, err := header.header()
	if err != nil {
		return nil, err
	}
	d.Block = &primitives.Block{Header: h}
	for _, one := range j.Chunks {
		var c chunkHeaderJSON
		if err := parse(one, &c); err != nil {
			return nil, err
		}
		h, err := c.header()
		if err != nil {
			return nil, err
		}
		d.Block.Body.Chunks = append(d.Block.Body.Chunks, h)
		d.chunks = append(d.chunks, c.ChunkHash)
	}
	return d, nil
}

// Parse decodes a StreamerMessage. It verifies the same hashes as ParseBlock. Errors: ErrForm,
// MismatchError.
func Parse(text []byte) (*Document, error) {
	if err := bounded(text); err != nil {
		return nil, err
	}
	var j struct {
		Block  json.RawMessage   `json:"block"`
		Shards []json.RawMessage `json:"shards"`
	}
	if err := parse(text, &j); err != nil {
		return nil, err
	}
	if len(j.Block) == 0 || string(j.Block) == "null" {
		return nil, formf("no block in it")
	}
	d, err := ParseBlock(j.Block)
	if err != nil {
		return nil, err
	}
	for _, one := range j.Shards {
		if err := d.AddShard(one); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// more counts one more shard. It returns ErrForm if the document exceeds MaxDocument or maxShards.
func (d *Document) more(text json.RawMessage) error {
	if d.size += len(text); d.size > MaxDocument || len(d.Shards) >= maxShards {
		return formf("%d bytes of %d shards", d.size, len(d.Shards)+1)
	}
	return bounded(text)
}

// freeValues is the number of values that a text of any size may have.
const freeValues = 1 << 16

// maxDepth is the maximum number of values that contain each other in a document. Those of nearcore have
// fewer than 40. The decoder's limit is 10,000 for each text, and a document is read as texts of several
// sizes.
const maxDepth = 1000

// bounded returns ErrForm if a text is too long or too deep, or has so many values for its length that it
// would take far more memory decoded than as text: more than one for each 8 bytes. The values of blocks
// take 20 bytes or more on average.
func bounded(text []byte) error {
	if len(text) > MaxDocument {
		return formf("%d bytes", len(text))
	}
	left, depth := freeValues+len(text)/8, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '[', '{':
			if depth++; depth > maxDepth {
				return formf("values in more than %d values", maxDepth)
			}
			left--
		case ']', '}':
			depth--
		case ',':
			left--
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
		if left < 0 {
			return formf("more than %d values in %d bytes", freeValues+len(text)/8, len(text))
		}
	}
	return nil
}

// AddShard adds an IndexerShard, as contained in a StreamerMessage and in shard_N.json of a Lake
// bucket. After an error the caller must not use the document.
func (d *Document) AddShard(text json.RawMessage) error {
	if err := d.more(text); err != nil {
		return err
	}
	var j shardJSON
	if err := parse(text, &j); err != nil {
		return err
	}
	s := Shard{ID: j.ID, raw: j}
	if c := j.Chunk; c != nil {
		if err := s.header(c.Header); err != nil {
			return err
		}
		if s.Author = c.Author; s.Author == "" {
			return formf("the chunk of shard %d has no author", j.ID)
		}
		for _, one := range c.Transactions {
			var x struct {
				Transaction json.RawMessage `json:"transaction"`
				Outcome     executedJSON    `json:"outcome"`
			}
			if err := parse(one, &x); err != nil {
				return err
			}
			if err := s.transaction(x.Transaction); err != nil {
				return err
			}
			if err := s.outcome(x.Outcome.Execution); err != nil {
				return err
			}
		}
		var err error
		if s.Receipts, err = receipts(c.Receipts); err != nil {
			return err
		}
	}
	for _, x := range j.Executed {
		if err := s.outcome(x.Execution); err != nil {
			return err
		}
		r, err := receipt(x.Receipt)
		if err != nil {
			return err
		}
		s.Executed = append(s.Executed, r)
	}
	for i := range j.Changes {
		if c := &j.Changes[i]; c.Type == "contract_code_update" {
			s.Codes = append(s.Codes, c.Change.Code)
		}
	}
	d.Shards = append(d.Shards, s)
	return nil
}

// AddChunk adds a ChunkView, as JSON-RPC returns it. A ChunkView contains no outcomes.
func (d *Document) AddChunk(text json.RawMessage) error {
	if err := d.more(text); err != nil {
		return err
	}
	var j struct {
		Author       primitives.AccountID `json:"author"`
		Header       json.RawMessage      `json:"header"`
		Transactions []json.RawMessage    `json:"transactions"`
		Receipts     []json.RawMessage    `json:"receipts"`
	}
	if err := parse(text, &j); err != nil {
		return err
	}
	s := Shard{Author: j.Author}
	if err := s.header(j.Header); err != nil {
		return err
	}
	s.ID = s.Chunk.ShardID
	for _, one := range j.Transactions {
		if err := s.transaction(one); err != nil {
			return err
		}
	}
	var err error
	if s.Receipts, err = receipts(j.Receipts); err != nil {
		return err
	}
	d.Shards = append(d.Shards, s)
	return nil
}

func (s *Shard) header(text json.RawMessage) (err error) {
	var c chunkHeaderJSON
	if err := parse(text, &c); err != nil {
		return err
	}
	s.Chunk, err = c.header()
	s.hash = c.ChunkHash
	return err
}

func (s *Shard) transaction(text json.RawMessage) error {
	t, err := transaction(text)
	if err != nil {
		return err
	}
	s.Transactions = append(s.Transactions, t)
	return nil
}

func (s *Shard) outcome(text json.RawMessage) error {
	o, err := outcome(text)
	if err != nil {
		return err
	}
	s.Outcomes = append(s.Outcomes, *o)
	return nil
}

// AppendJSON appends the document as a StreamerMessage, for Parse. It writes the decoded values anew, so
// members that Parse does not read do not get in, and each value has one form. State changes are left
// out, because no hash proves them. Of a document that passes Check, Parse reads the same values again, if
// the text is within its bounds (see Stored). A document with shards from AddChunk lacks their content.
func (d *Document) AppendJSON(b []byte) []byte {
	b, _ = d.appendJSON(b, math.MaxInt, func([]byte) error { return nil })
	return b
}

// Stored returns the text of AppendJSON, if Parse can read it, else ErrForm. What a feed sends is within
// the bounds of Parse. But values that no hash covers may be longer when they are written anew, or may have
// been within the bounds only because of spaces. Stored uses little more memory than MaxDocument.
func (d *Document) Stored() ([]byte, error) { return d.appendJSON(nil, MaxDocument, bounded) }

// appendJSON is AppendJSON. It calls check with each part that Parse reads as a text of its own, and with
// the whole. It ends soon after b has become longer than most.
func (d *Document) appendJSON(b []byte, most int, check func([]byte) error) ([]byte, error) {
	start := len(b)
	b = append(b, `{"block":`...)
	at := len(b)
	b = view.AppendBlock(b, d.Author, d.Block)
	if err := check(b[at:]); err != nil {
		return nil, err
	}
	b = append(b, `,"shards":[`...)
	for i := range d.Shards {
		if i > 0 {
			b = append(b, ',')
		}
		at = len(b)
		b = d.Shards[i].appendJSON(b, most)
		if err := check(b[at:]); err != nil {
			return nil, err
		}
		if len(b) > most {
			break
		}
	}
	b = append(b, `]}`...)
	return b, check(b[start:])
}

// appendJSON appends a shard. It ends soon after b has become longer than most.
func (s *Shard) appendJSON(b []byte, most int) []byte {
	b = strconv.AppendUint(append(b, `{"shard_id":`...), uint64(s.ID), 10)
	if s.raw.Chunk == nil {
		b = append(b, `,"chunk":null`...)
	} else {
		b = view.AppendAccountID(append(b, `,"chunk":{"author":`...), s.Author)
		b = view.AppendChunkHeader(append(b, `,"header":`...), s.Chunk)
		b = append(b, `,"transactions":[`...)
		for i, t := range s.Transactions {
			if i > 0 {
				b = append(b, ',')
			}
			if len(b) > most {
				return b
			}
			b = view.AppendSignedTransaction(append(b, `{"transaction":`...), t.SignedTransaction)
			b = view.AppendOutcomeProof(append(b, `,"outcome":{"execution_outcome":`...), &s.Outcomes[i])
			b = append(b, `}}`...)
		}
		b = append(b, `],"receipts":[`...)
		for i, x := range s.Receipts {
			if i > 0 {
				b = append(b, ',')
			}
			if len(b) > most {
				return b
			}
			b = view.AppendReceipt(b, x.Receipt)
		}
		b = append(b, `]}`...)
	}
	b = append(b, `,"receipt_execution_outcomes":[`...)
	for i, x := range s.Executed {
		if i > 0 {
			b = append(b, ',')
		}
		if len(b) > most {
			return b
		}
		b = view.AppendOutcomeProof(append(b, `{"execution_outcome":`...), &s.Outcomes[len(s.Transactions)+i])
		b = append(view.AppendReceipt(append(b, `,"receipt":`...), x.Receipt), '}')
	}
	return append(b, `],"state_changes":[]}`...)
}

// GatherChunks adds the chunk headers of a document whose block lacks them: early feeds list the header
// of a new chunk only in its shard. Check does the same. Errors: MismatchError.
func (d *Document) GatherChunks() error {
	if len(d.chunks) > 0 || len(d.Block.Header.ChunkMask) == 0 {
		return nil
	}
	return d.gatherChunks()
}

// NewChunk returns the hash of the new chunk that the block has of a shard. The bool is false if the
// block has none.
func (d *Document) NewChunk(id primitives.ShardID) (primitives.Hash, bool) {
	for i, c := range d.Block.Body.Chunks {
		if c.ShardID == id && c.HeightIncluded == d.Block.Header.Height {
			return d.chunks[i], true
		}
	}
	return primitives.Hash{}, false
}

// Shard returns the shard with this id, or nil if the document lacks it.
func (d *Document) Shard(id primitives.ShardID) *Shard {
	for i := range d.Shards {
		if d.Shards[i].ID == id {
			return &d.Shards[i]
		}
	}
	return nil
}

// Codes yields the contract code in the document. The caller provides this code to later documents.
func (d *Document) Codes(yield func([]byte)) {
	for i := range d.Shards {
		for _, c := range d.Shards[i].Codes {
			yield(c)
		}
	}
}

// ViewedChunk returns the new chunk of a shard as the document shows it, with the producer that the feed
// names: with its transactions, which may be incomplete (see Transaction), and its receipts. It returns
// nil if the document has no new chunk of the shard. It only reads the document.
//
// The transactions are those with an outcome: feeds publish no others. Between protocol versions 74 and
// 82 a chunk could also contain transactions without an outcome.
func (d *Document) ViewedChunk(id primitives.ShardID) (author primitives.AccountID, c *primitives.Chunk) {
	s := d.Shard(id)
	if s == nil || s.Chunk == nil {
		return "", nil
	}
	c = &primitives.Chunk{Hash: s.hash, Header: *s.Chunk}
	c.Header.HeightIncluded = d.Block.Header.Height
	// Old releases of nearcore list the receipts that transactions create for their own signers among
	// the chunk's receipts, although the chunk does not contain them.
	local := map[primitives.Hash]bool{}
	for i, t := range s.Transactions {
		c.Transactions = append(c.Transactions, t.SignedTransaction)
		if t.SignerID == t.ReceiverID && i < len(s.Outcomes) {
			for _, x := range s.Outcomes[i].ReceiptIDs {
				local[x] = true
			}
		}
	}
	for _, x := range s.Receipts {
		if !local[x.ID] {
			c.PrevOutgoingReceipts = append(c.PrevOutgoingReceipts, x.Receipt)
		}
	}
	return s.Author, c
}

// Wanted selects the parts of a block's chunks that Chunks returns.
type Wanted struct {
	Layout primitives.ShardLayout // layout of the block's epoch
	// Held are the shards whose transactions are returned. For other shards, only receipts to
	// shards in Held are returned. nil means all shards.
	Held []primitives.ShardID
}

// Chunks returns the new chunks of a block, by shard index. An element is nil if the shard has no
// new chunk. A chunk of a shard in w.Held has its transactions but no receipts, because a node with
// the shard's state computes the receipts itself. A chunk of another shard has the form of
// chain.CutChunk. Errors: MismatchError, ErrLacks.
func (d *Document) Chunks(code Code, ancestors Ancestors, w *Wanted) ([]*primitives.Chunk, error) {
	out := make([]*primitives.Chunk, len(d.Block.Body.Chunks))
	for i, h := range d.Block.Body.Chunks {
		if h.HeightIncluded != d.Block.Header.Height {
			continue
		}
		c := &primitives.Chunk{Hash: d.chunks[i], Header: *h}
		s := d.Shard(h.ShardID)
		told := s != nil && s.Chunk != nil && s.hash == d.chunks[i]
		held := w.Held == nil || slices.Contains(w.Held, h.ShardID)
		switch {
		case held && h.TxRoot.IsZero(): // nothing to return
		case !told:
			return nil, mismatchf("shards", "the chunk of shard %d is missing", h.ShardID)
		case held:
			if err := s.fits(h, code); err != nil {
				return nil, err
			}
			for _, t := range s.Transactions {
				if err := t.Complete(code, ancestors); err != nil {
					return nil, err
				}
				c.Transactions = append(c.Transactions, t.SignedTransaction)
			}
		default:
			size, text := uint64(0), []byte(nil)
			for _, r := range s.Receipts {
				if missing := fill(r.Slots, code); len(missing) > 0 {
					return nil, &CodeError{Of: r.ID, Hashes: missing}
				}
				text = r.AppendBorsh(text[:0])
				if size += uint64(len(text)); size > h.EncodedLength {
					return nil, mismatchf("shards.chunk.receipts", "of shard %d: more than the %d bytes of its chunk", h.ShardID, h.EncodedLength)
				}
				c.PrevOutgoingReceipts = append(c.PrevOutgoingReceipts, r.Receipt)
			}
			if !sentOut(c.PrevOutgoingReceipts, &w.Layout, h.PrevOutgoingReceiptsRoot) {
				return nil, mismatchf("shards.chunk.receipts", "the root of those of shard %d differs from the chunk's", h.ShardID)
			}
			c = chain.CutChunk(c, w.Layout, w.Held)
		}
		out[i] = c
	}
	return out, nil
}

// fits checks that a shard's transactions are not longer than the chunk header declares. It runs
// before Complete hashes them. So a false document causes no more hashing than the true chunk
// would.
func (s *Shard) fits(h *primitives.ChunkHeader, code Code) error {
	size, text := uint64(0), []byte(nil)
	for _, t := range s.Transactions {
		if missing := fill(t.Slots, code); len(missing) > 0 {
			return &CodeError{Of: t.Named, Hashes: missing}
		}
		text = t.SignedTransaction.AppendBorsh(text[:0])
		if size += uint64(len(text)); size > h.EncodedLength {
			return mismatchf("shards.chunk.transactions", "of shard %d: more than the %d bytes of its chunk", h.ShardID, h.EncodedLength)
		}
	}
	return nil
}
