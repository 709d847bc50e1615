package primitives

// StorageTag names a variant of StorageError. A tag is itself an error, for errors.Is.
type StorageTag byte

// The variants, by their borsh discriminants (nearcore core/primitives/src/errors.rs:128).
const (
	StorageInternalError         StorageTag = iota //
	StorageMissingTrieValue                        // fields Context, Hash
	StorageUnexpectedTrieValue                     //
	StorageInconsistentState                       // field Text
	StorageFlatBlockNotSupported                   // field Text
	StorageMemTrieLoading                          // field Text
)

// StorageError is state that cannot be read, or that is inconsistent. It is a fault of the node,
// not of a transaction.
type StorageError struct {
	Tag  StorageTag
	Trie MissingTrieValue
	Text string
}

// MissingTrieValue is a trie node or value that the storage does not have. Context is where it was
// needed: TrieIterator, TriePrefetchingStorage, TrieMemoryPartialStorage or TrieStorage.
type MissingTrieValue struct {
	Context string
	Hash    Hash
}

// AppendJSON appends {"context", "hash"}.
func (m *MissingTrieValue) AppendJSON(b []byte) []byte {
	b = AppendJSONString(append(b, `{"context":`...), m.Context)
	return append(AppendJSONString(append(b, `,"hash":`...), m.Hash.String()), '}')
}

// UnmarshalJSON reads what AppendJSON writes.
func (m *MissingTrieValue) UnmarshalJSON(in []byte) error {
	return decodeErrFields(in, []errField{{"context", &m.Context}, {"hash", &m.Hash}})
}

var storageRows = []errRow[StorageError]{
	StorageInternalError:         {name: "StorageInternalError"},
	StorageMissingTrieValue:      {name: "MissingTrieValue", inner: func(e *StorageError) any { return &e.Trie }},
	StorageUnexpectedTrieValue:   {name: "UnexpectedTrieValue"},
	StorageInconsistentState:     {name: "StorageInconsistentState", inner: (*StorageError).text},
	StorageFlatBlockNotSupported: {name: "FlatStorageBlockNotSupported", inner: (*StorageError).text},
	StorageMemTrieLoading:        {name: "MemTrieLoadingError", inner: (*StorageError).text},
}

func (e *StorageError) text() any { return &e.Text }

// String returns nearcore's name of the variant.
func (t StorageTag) String() string { return errName(storageRows, "StorageError", int(t)) }

// Error returns the name.
func (t StorageTag) Error() string { return t.String() }

// AppendJSON appends nearcore's JSON.
func (e *StorageError) AppendJSON(b []byte) []byte { return appendError(b, storageRows, int(e.Tag), e) }

// UnmarshalJSON reads nearcore's JSON.
func (e *StorageError) UnmarshalJSON(in []byte) error {
	*e = StorageError{}
	tag, err := decodeError(in, storageRows, e)
	e.Tag = StorageTag(tag)
	return err
}

// Error returns the JSON.
func (e *StorageError) Error() string { return "storage: " + string(e.AppendJSON(nil)) }

// Is returns whether target is e's tag.
func (e *StorageError) Is(target error) bool { return target == e.Tag }
