package logic

import (
	"bytes"
	"encoding/binary"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// inRegister is the length that means that the argument is in a register. The pointer is then the
// number of the register.
const inRegister = ^uint64(0)

// at returns n bytes of the memory, not a copy. The module may change these bytes when it runs
// again.
func (l *Logic) at(ptr, n uint64) ([]byte, error) {
	if size := uint64(len(l.Memory)); ptr > size || n > size-ptr {
		return nil, fail(MemoryAccessViolation)
	}
	return l.Memory[ptr : ptr+n : ptr+n], nil
}

// read does the same as at, and pays for the bytes. read pays before it checks the bounds.
func (l *Logic) read(ptr, n uint64) ([]byte, error) {
	if err := l.gas.pay(parameters.ExtReadMemoryBase); err != nil {
		return nil, err
	}
	if err := l.gas.payPer(parameters.ExtReadMemoryByte, n); err != nil {
		return nil, err
	}
	return l.at(ptr, n)
}

// write copies b into the memory. write pays before it checks the bounds.
func (l *Logic) write(ptr uint64, b []byte) error {
	if err := l.gas.pay(parameters.ExtWriteMemoryBase); err != nil {
		return err
	}
	if err := l.gas.payPer(parameters.ExtWriteMemoryByte, uint64(len(b))); err != nil {
		return err
	}
	to, err := l.at(ptr, uint64(len(b)))
	if err == nil {
		copy(to, b)
	}
	return err
}

// arg reads an argument from memory or, if n is inRegister, from a register. The result must not be
// changed and is valid during the current host function.
func (l *Logic) arg(n, ptr uint64) ([]byte, error) {
	if n != inRegister {
		return l.read(ptr, n)
	}
	data, ok := l.registers.get(ptr)
	if !ok { // the register is not set
		return nil, &HostError{Kind: InvalidRegisterID, A: ptr}
	}
	if err := l.gas.pay(parameters.ExtReadRegisterBase); err != nil {
		return nil, err
	}
	return data, l.gas.payPer(parameters.ExtReadRegisterByte, uint64(len(data)))
}

func (l *Logic) readBalance(ptr uint64) (b primitives.Balance, err error) {
	in, err := l.read(ptr, 16)
	if err != nil {
		return b, err
	}
	return primitives.Balance{Lo: binary.LittleEndian.Uint64(in), Hi: binary.LittleEndian.Uint64(in[8:])}, nil
}

func (l *Logic) writeBalance(ptr uint64, b primitives.Balance) error {
	var out [16]byte
	binary.LittleEndian.PutUint64(out[:], b.Lo)
	binary.LittleEndian.PutUint64(out[8:], b.Hi)
	return l.write(ptr, out[:])
}

// setRegister pays for data and stores data in a register. The caller must not change data
// afterwards.
func (l *Logic) setRegister(id uint64, data []byte) error {
	r, err := l.payRegister(id, uint64(len(data)), uint64(len(data)))
	if err == nil {
		r.data = data
	}
	return err
}

// shareRegister does the same as setRegister without the price per byte. shareRegister is for
// arguments and promise results, whose bytes have been paid for.
func (l *Logic) shareRegister(id uint64, data []byte) error {
	r, err := l.payRegister(id, uint64(len(data)), 0)
	if err == nil {
		r.data = data
	}
	return err
}

// copyToRegister does the same as setRegister with a copy of data. copyToRegister pays before it
// copies.
func (l *Logic) copyToRegister(id uint64, data []byte) error {
	r, err := l.payRegister(id, uint64(len(data)), uint64(len(data)))
	if err == nil {
		r.data = bytes.Clone(data)
	}
	return err
}

// payRegister pays the base price and the price of paid bytes. payRegister returns the register id
// with space for n bytes.
func (l *Logic) payRegister(id, n, paid uint64) (*register, error) {
	if err := l.gas.pay(parameters.ExtWriteRegisterBase); err != nil {
		return nil, err
	}
	if paid > 0 {
		if err := l.gas.payPer(parameters.ExtWriteRegisterByte, paid); err != nil {
			return nil, err
		}
	}
	r := l.registers.room(id, n, &l.wasm.Limits)
	if r == nil {
		return nil, fail(MemoryAccessViolation)
	}
	return r, nil
}
