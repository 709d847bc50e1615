package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// MaxRecording bounds the unpacked size of a recording.
const MaxRecording = 2 << 30

// Meta is the first line of a recording.
type Meta struct {
	Text            string            `json:"meta"`
	Version         string            `json:"version"`
	ProtocolVersion uint32            `json:"protocol_version"`
	ChainID         string            `json:"chain_id"`
	ValidatorSeeds  map[string]string `json:"validator_seeds"`
	Numbering       string            `json:"numbering"`
}

// BlockLine is a recorded block: its JSON view, and the fields that its producer did not compute.
type BlockLine struct {
	Raw   json.RawMessage
	Given GivenBlock
}

// GivenBlock has the hash of a block and the fields that cannot be computed from its parent.
type GivenBlock struct {
	Author string `json:"author"`
	Chunks []struct {
		ChunkHash      primitives.Hash      `json:"chunk_hash"`
		PrevBlockHash  primitives.Hash      `json:"prev_block_hash"`
		HeightCreated  primitives.Height    `json:"height_created"`
		HeightIncluded primitives.Height    `json:"height_included"`
		ShardID        primitives.ShardID   `json:"shard_id"`
		Signature      primitives.Signature `json:"signature"`
	} `json:"chunks"`
	Header struct {
		Hash                  primitives.Hash            `json:"hash"`
		PrevHash              primitives.Hash            `json:"prev_hash"`
		Height                primitives.Height          `json:"height"`
		Timestamp             uint64                     `json:"timestamp"`
		LatestProtocolVersion primitives.ProtocolVersion `json:"latest_protocol_version"`
		Approvals             []*string                  `json:"approvals"`
		ChunkMask             []bool                     `json:"chunk_mask"`
		ChunkEndorsements     [][]byteNumber             `json:"chunk_endorsements"`
		EpochID               primitives.Hash            `json:"epoch_id"`
	} `json:"header"`
}

// byteNumber is a byte in JSON. A []byteNumber is an array of numbers in JSON; a []byte would be a
// base64 string.
type byteNumber uint16

// ChunkLine is a recorded chunk.
type ChunkLine struct {
	Raw     json.RawMessage
	ShardID primitives.ShardID
	TxOrder []primitives.Hash
}

// ChangesLine has the replies of the methods `changes` and `block_effects` for a block.
type ChangesLine struct {
	Effects json.RawMessage
	Changes map[string]json.RawMessage
}

// EpochLine is a reply of the method `validators`.
type EpochLine struct {
	EpochID    primitives.Hash
	Validators json.RawMessage
	At         primitives.Height // height of the first recorded block after the reply
	Blocks     uint64            // sum of the expected blocks of all validators
}

// LightLine is a reply of the method `next_light_client_block`.
type LightLine struct {
	After  primitives.Hash
	Light  json.RawMessage
	Height primitives.Height // height of the returned block; 0: no block was returned
}

// TxLine is a submitted transaction with its final status.
type TxLine struct {
	Hash   primitives.Hash
	Label  string
	Tx     *primitives.SignedTransaction // nil: the bytes do not decode
	Wait   string
	Status json.RawMessage // nil: the status is not compared
}

// Recording is a whole chain.
type Recording struct {
	Meta           Meta
	Genesis        json.RawMessage
	ProtocolConfig json.RawMessage
	Blocks         []BlockLine
	Chunks         map[primitives.Height][]ChunkLine
	Changes        map[primitives.Height]ChangesLine
	Epochs         []EpochLine
	Lights         []LightLine
	Txs            []TxLine
	txByHash       map[primitives.Hash]*primitives.SignedTransaction
}

// Open reads a recording from a file, gzip or plain.
func Open(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rec, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("recording %s: %w", path, err)
	}
	return rec, nil
}

// Read reads a recording, gzip or plain.
func Read(in io.Reader) (*Recording, error) {
	br := bufio.NewReaderSize(in, 1<<20)
	if magic, _ := br.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, err
		}
		br = bufio.NewReaderSize(z, 1<<20)
	}
	rec := &Recording{Chunks: map[primitives.Height][]ChunkLine{}, Changes: map[primitives.Height]ChangesLine{},
		txByHash: map[primitives.Hash]*primitives.SignedTransaction{}}
	total := 0
	for n := 1; ; n++ {
		line, err := br.ReadBytes('\n')
		if total += len(line); total > MaxRecording {
			return nil, fmt.Errorf("it has more than %d bytes unpacked, the limit", MaxRecording)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if err := rec.add(line); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if rec.Genesis == nil || len(rec.Blocks) == 0 {
		return nil, errors.New("it has no genesis or no blocks: this is not a recording of a chain")
	}
	return rec, nil
}

func (rec *Recording) add(line []byte) error {
	var l struct {
		Meta
		Genesis        json.RawMessage            `json:"genesis"`
		ProtocolConfig json.RawMessage            `json:"protocol_config"`
		Block          json.RawMessage            `json:"block"`
		Height         primitives.Height          `json:"height"`
		Chunk          json.RawMessage            `json:"chunk"`
		Effects        json.RawMessage            `json:"effects"`
		Changes        map[string]json.RawMessage `json:"changes"`
		EpochID        primitives.Hash            `json:"epoch_id"`
		Validators     json.RawMessage            `json:"validators"`
		After          primitives.Hash            `json:"after"`
		Light          json.RawMessage            `json:"light"`
		Tx             primitives.Hash            `json:"tx"`
		Label          string                     `json:"label"`
		SignedTx       string                     `json:"signed_tx_base64"`
		Wait           string                     `json:"wait"`
		Status         json.RawMessage            `json:"status"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	switch {
	case l.Text != "":
		rec.Meta = l.Meta
	case l.Genesis != nil:
		rec.Genesis = l.Genesis
	case l.ProtocolConfig != nil:
		rec.ProtocolConfig = l.ProtocolConfig
	case l.Block != nil:
		b := BlockLine{Raw: l.Block}
		if err := json.Unmarshal(l.Block, &b.Given); err != nil {
			return err
		}
		rec.Blocks = append(rec.Blocks, b)
	case l.Chunk != nil:
		var c struct {
			Header struct {
				ShardID primitives.ShardID `json:"shard_id"`
			} `json:"header"`
			Transactions []struct {
				Hash primitives.Hash `json:"hash"`
			} `json:"transactions"`
		}
		if err := json.Unmarshal(l.Chunk, &c); err != nil {
			return err
		}
		cl := ChunkLine{Raw: l.Chunk, ShardID: c.Header.ShardID}
		for _, t := range c.Transactions {
			cl.TxOrder = append(cl.TxOrder, t.Hash)
		}
		rec.Chunks[l.Height] = append(rec.Chunks[l.Height], cl)
	case l.Changes != nil:
		rec.Changes[l.Height] = ChangesLine{Effects: l.Effects, Changes: l.Changes}
	case l.Validators != nil:
		e := EpochLine{EpochID: l.EpochID, Validators: l.Validators}
		var v struct {
			Current []struct {
				Blocks uint64 `json:"num_expected_blocks"`
			} `json:"current_validators"`
		}
		if err := json.Unmarshal(l.Validators, &v); err != nil {
			return fmt.Errorf("validators of epoch %v: %w", l.EpochID, err)
		}
		for i := range v.Current {
			e.Blocks += v.Current[i].Blocks
		}
		if n := len(rec.Blocks); n > 0 {
			e.At = rec.Blocks[n-1].Given.Header.Height + 1
		}
		rec.Epochs = append(rec.Epochs, e)
	case l.Light != nil:
		var b struct {
			Lite struct {
				Height primitives.Height `json:"height"`
			} `json:"inner_lite"`
		}
		if err := json.Unmarshal(l.Light, &b); err != nil {
			return fmt.Errorf("light client block after %v: %w", l.After, err)
		}
		rec.Lights = append(rec.Lights, LightLine{After: l.After, Light: l.Light, Height: b.Lite.Height})
	case l.Tx != primitives.Hash{}:
		t := TxLine{Hash: l.Tx, Label: l.Label, Wait: l.Wait, Status: l.Status}
		raw, err := base64.StdEncoding.DecodeString(l.SignedTx)
		if err != nil {
			return fmt.Errorf("tx %s: %w", l.Tx, err)
		}
		tx := new(primitives.SignedTransaction)
		if borsh.Unmarshal(raw, tx) == nil {
			t.Tx = tx
			rec.txByHash[tx.Hash()] = tx
		}
		rec.Txs = append(rec.Txs, t)
	default:
		return fmt.Errorf("unknown kind of line: %.80s", line)
	}
	return nil
}

// lightsWithin returns the light client replies about recorded blocks. When the recorder sent its
// last requests, the chain may already have been beyond the last recorded block.
func (rec *Recording) lightsWithin() []LightLine {
	last := primitives.Height(0)
	if n := len(rec.Blocks); n > 0 {
		last = rec.Blocks[n-1].Given.Header.Height
	}
	i := slices.IndexFunc(rec.Lights, func(l LightLine) bool { return l.Height > last })
	if i < 0 {
		return rec.Lights
	}
	return rec.Lights[:i]
}

// epochsWithin returns the validators replies about recorded blocks. It leaves out a reply about
// the last epoch that counts more blocks than were recorded.
func (rec *Recording) epochsWithin() []EpochLine {
	n := len(rec.Blocks)
	if n == 0 {
		return rec.Epochs
	}
	last := &rec.Blocks[n-1].Given.Header
	heights := last.Height + 1 // number of heights in the last epoch
	for i := n - 1; i >= 0; i-- {
		if h := &rec.Blocks[i].Given.Header; h.EpochID != last.EpochID {
			heights = last.Height - h.Height
			break
		}
	}
	return slices.DeleteFunc(slices.Clone(rec.Epochs), func(l EpochLine) bool {
		return l.EpochID == last.EpochID && l.Blocks > uint64(heights)
	})
}

// Transactions returns the signed transactions of a chunk, in the order of the chunk. A transaction
// that is not in the recording is an error.
func (rec *Recording) Transactions(c *ChunkLine) ([]*primitives.SignedTransaction, error) {
	txs := make([]*primitives.SignedTransaction, len(c.TxOrder))
	for i, h := range c.TxOrder {
		tx, ok := rec.txByHash[h]
		if !ok {
			return nil, fmt.Errorf("transaction %s of a chunk is not in the recording", h)
		}
		txs[i] = tx
	}
	return txs, nil
}
