package compiler

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// An artifact may be a hundred times as large as its contract. So the parent creates a file, the
// child writes the artifact to the file, and the reply has only length and checksum. The parent
// never reads the artifact into memory; it only maps the artifact to run it.

// Written is an artifact in a file.
type Written struct {
	Size int64
	Sum  uint32 // CRC-32C of the artifact
}

// writtenLen is the encoded length of a Written.
const writtenLen = 12

func (w Written) append(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, uint64(w.Size)), w.Sum)
}

func written(b []byte) Written {
	return Written{int64(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint32(b[8:])}
}

// writeFile writes the artifact to a file that the parent has created. Only the child calls
// writeFile.
func writeFile(path string, code []byte) (w Written, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return w, err
	}
	_, err = f.Write(code)
	return Written{int64(len(code)), crc32.Checksum(code, castagnoli)}, errors.Join(err, f.Close())
}

// checkFile checks that a file has the reported length and checksum. Only the parent calls
// checkFile. checkFile reads the file piece by piece, because mapped pages would count as this
// process's memory.
func checkFile(path string, w Written) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, f)
	if err == nil && (n != w.Size || sum.Sum32() != w.Sum) {
		err = fmt.Errorf("the artifact file has %d bytes with checksum %x, but the compiler process reported %d bytes with checksum %x",
			n, sum.Sum32(), w.Size, w.Sum)
	}
	return err
}
