package view

import "github.com/troupe-chain/troupe/primitives"

// Window is a range of heights: Start is included, End is not.
type Window struct{ Start, End primitives.Height }

// AppendWindows appends the reply of maintenance_windows.
func AppendWindows(b []byte, ws []Window) []byte {
	return appendList(b, ws, func(b []byte, w *Window) []byte {
		b = appendUint(append(b, `{"end":`...), w.End)
		return append(appendUint(append(b, `,"start":`...), w.Start), '}')
	})
}

// SplitStorage is the progress of a node's stores (nearcore SplitStorageInfoView). There is one
// store here, so there is no cold head.
type SplitStorage struct {
	Head, Final primitives.Height
	Kind        string // "RPC" or "Archive"
}

// AppendSplitStorage appends the reply of EXPERIMENTAL_split_storage_info.
func AppendSplitStorage(b []byte, s *SplitStorage) []byte {
	b = appendUint(append(b, `{"cold_head_height":null,"final_head_height":`...), s.Final)
	b = appendUint(append(b, `,"head_height":`...), s.Head)
	return append(AppendString(append(b, `,"hot_db_kind":`...), s.Kind), '}')
}

// Debug asks for the data of a debug page.
type Debug struct {
	Page   string
	Epoch  *primitives.EpochID // for epoch_info; nil: the head's epoch
	Height *primitives.Height  // for block_status: the highest height; nil: the head's height
	Blocks *uint64             // for block_status: the number of blocks; nil: 50
}
