package trie

// Forks has the depths at which other keys of a trie diverge from a given key. Forks has only the
// depths that the nodes on the path of the given key show.
type Forks struct {
	Depths []int // the depths in nibbles, ascending
	Found  bool  // the key exists
	// Alone is set only if the key is absent and the key's path ends within the key of a leaf or an
	// extension. In that case there is no branch at the last depth.
	Alone bool
	// If Alone is set, Next is the nibble at the last depth in the key of that leaf or extension.
	// Next is EndNibble if the leaf's key ends there.
	Next byte
}

// EndNibble stands for the end of a key.
const EndNibble = 16

// Forks returns the forks along the path of a key. It returns ErrMissing where the proof lacks a
// node.
func (p *Partial) Forks(key []byte) (f Forks, err error) {
	if p.root.IsZero() {
		return f, nil
	}
	for h, pos := &p.root, 0; h != nil; {
		n, err := p.node(h, nil)
		if err != nil {
			return f, err
		}
		switch n.kind {
		case Leaf, Extension:
			ext, rest := extNibs(n.key), keyNibs(key, pos)
			l := commonPrefix(ext, rest)
			if n.kind == Leaf && l == ext.n && l == rest.n {
				f.Found = true
				return f, nil
			}
			if n.kind == Leaf || l < ext.n {
				f.Depths, f.Alone, f.Next = append(f.Depths, pos+l), true, EndNibble
				if l < ext.n {
					f.Next = ext.at(l)
				}
				return f, nil
			}
			pos += l
			h = n.child()
		default:
			f.Depths = append(f.Depths, pos)
			if pos == 2*len(key) {
				f.Found = n.hasValue()
				return f, nil
			}
			h = n.kid(nibbleAt(key, pos))
			pos++
		}
	}
	return f, nil
}
