package view

import "github.com/troupe-chain/troupe/primitives"

// DocumentKind is the requested part of a block's document.
type DocumentKind uint8

// The kinds.
const (
	DocumentWhole   DocumentKind = iota // the whole block
	DocumentHeaders                     // headers of the block and its chunks
	DocumentChunk                       // chunk of one shard
	DocumentShard                       // chunk, outcomes and state changes of one shard
	DocumentCode                        // code that the block's transactions or receipts deploy, in base64
)

// DocumentPart is a part of a block's document.
type DocumentPart struct {
	Kind  DocumentKind
	Shard primitives.ShardID // if Kind is DocumentChunk or DocumentShard
	Code  primitives.Hash    // if Kind is DocumentCode
}
