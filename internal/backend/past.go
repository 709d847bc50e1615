package backend

import (
	"sync"
	"time"
)

// past are the places of who reads far behind the head: half of the cores. While more wait for one than any honest use has, a place rests for as long as it
// was taken before another has it: a crowd that reads the past, which is cheap to ask for and dear to tell, leaves half of that half to everybody else.
type past struct {
	places chan struct{}
	now    func() time.Time
	rest   func(time.Duration, func()) // time.AfterFunc

	mu     sync.Mutex
	second time.Time // when the counting of turned began
	turned int       // those who were turned away since; who waits asks once a second or more often
	before int       // in the second before
}

// crowd is how many are turned away in a second by more than a few who read the past at once.
const crowd = 32

func newPast(places int) *past {
	return &past{places: make(chan struct{}, places), now: time.Now, rest: func(d time.Duration, f func()) { time.AfterFunc(d, f) }}
}

// take gives a place, which done gives back; false: there is none.
func (p *past) take() (done func(), ok bool) {
	select {
	case p.places <- struct{}{}:
	default:
		p.count(1)
		return nil, false
	}
	begun := p.now()
	return func() {
		if took := p.now().Sub(begun); took > 0 && p.count(0) > crowd {
			p.rest(took, func() { <-p.places })
			return
		}
		<-p.places
	}, true
}

// count counts those who are turned away, and returns how many were in a second.
func (p *past) count(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := p.now(); {
	case now.Sub(p.second) > 2*time.Second:
		p.second, p.turned, p.before = now, 0, 0
	case now.Sub(p.second) > time.Second:
		p.second, p.turned, p.before = now, 0, p.turned
	}
	p.turned += n
	return max(p.turned, p.before)
}
