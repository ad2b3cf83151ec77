// gomemcache's documentation: README and each method of its reference.
package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	. "terrace/clients/examples"
)

func text(item *memcache.Item, err error) string {
	return string(Must(item, err).Value)
}

// example runs one with a client of an empty server.
func example(name string, work func(mc *memcache.Client)) {
	Example(name, func() {
		mc := memcache.New(Address("MEMCACHED_ADDRESS"))
		mc.Timeout = 10 * time.Second
		defer mc.Close()
		No(mc.FlushAll())
		work(mc)
	})
}

func main() {
	example("set and get", func(mc *memcache.Client) {
		No(mc.Set(&memcache.Item{Key: "foo", Value: []byte("my value")}))
		Equal(text(mc.Get("foo")), "my value")
		_, err := mc.Get("missing")
		Equal(err, memcache.ErrCacheMiss)
	})
	example("flags", func(mc *memcache.Client) {
		No(mc.Set(&memcache.Item{Key: "foo", Value: []byte("v"), Flags: 4294967295}))
		Equal(Must(mc.Get("foo")).Flags, uint32(4294967295))
	})
	example("add and replace", func(mc *memcache.Client) {
		item := &memcache.Item{Key: "foo", Value: []byte("1")}
		Equal(mc.Replace(item), memcache.ErrNotStored)
		No(mc.Add(item))
		Equal(mc.Add(item), memcache.ErrNotStored)
		No(mc.Replace(&memcache.Item{Key: "foo", Value: []byte("2")}))
		Equal(text(mc.Get("foo")), "2")
	})
	example("append and prepend", func(mc *memcache.Client) {
		Equal(mc.Append(&memcache.Item{Key: "foo", Value: []byte("c")}), memcache.ErrNotStored)
		No(mc.Set(&memcache.Item{Key: "foo", Value: []byte("b")}))
		No(mc.Append(&memcache.Item{Key: "foo", Value: []byte("c")}))
		No(mc.Prepend(&memcache.Item{Key: "foo", Value: []byte("a")}))
		Equal(text(mc.Get("foo")), "abc")
	})
	example("compare and swap", func(mc *memcache.Client) {
		No(mc.Set(&memcache.Item{Key: "foo", Value: []byte("1")}))
		first, second := Must(mc.Get("foo")), Must(mc.Get("foo"))
		first.Value = []byte("2")
		No(mc.CompareAndSwap(first))
		second.Value = []byte("3")
		Equal(mc.CompareAndSwap(second), memcache.ErrCASConflict)
		No(mc.Delete("foo"))
		Equal(mc.CompareAndSwap(second), memcache.ErrCacheMiss)
	})
	example("a loop of compare and swap", func(mc *memcache.Client) {
		mc.MaxIdleConns = 8
		No(mc.Set(&memcache.Item{Key: "n", Value: []byte("0")}))
		var wg sync.WaitGroup
		errs := make(chan error, 8)
		for range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for done := 0; done < 25; {
					item, err := mc.Get("n")
					if err != nil {
						errs <- err
						return
					}
					n, _ := strconv.Atoi(string(item.Value))
					item.Value = []byte(strconv.Itoa(n + 1))
					switch err := mc.CompareAndSwap(item); err {
					case nil:
						done++
					case memcache.ErrCASConflict:
					default:
						errs <- err
						return
					}
				}
			}()
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			No(err)
		}
		Equal(text(mc.Get("n")), "200")
	})
	example("get multi", func(mc *memcache.Client) {
		var keys []string
		for i := range 300 {
			key := fmt.Sprintf("key%d", i)
			No(mc.Set(&memcache.Item{Key: key, Value: []byte(key)}))
			keys = append(keys, key)
		}
		items := Must(mc.GetMulti(append(keys, "missing")))
		Equal(len(items), 300)
		Equal(string(items["key299"].Value), "key299")
	})
	example("delete", func(mc *memcache.Client) {
		Equal(mc.Delete("foo"), memcache.ErrCacheMiss)
		No(mc.Set(&memcache.Item{Key: "foo", Value: []byte("v")}))
		No(mc.Delete("foo"))
		No(mc.Set(&memcache.Item{Key: "foo", Value: []byte("v")}))
		No(mc.DeleteAll())
		_, err := mc.Get("foo")
		Equal(err, memcache.ErrCacheMiss)
	})
	example("increment and decrement", func(mc *memcache.Client) {
		_, err := mc.Increment("n", 1)
		Equal(err, memcache.ErrCacheMiss)
		No(mc.Set(&memcache.Item{Key: "n", Value: []byte("35")}))
		Gives(uint64(42))(mc.Increment("n", 7))
		Gives(uint64(0))(mc.Decrement("n", 100))
		No(mc.Set(&memcache.Item{Key: "n", Value: []byte("word")}))
		_, err = mc.Increment("n", 1)
		Error(err, "non-numeric value")
	})
	example("expiration and touch", func(mc *memcache.Client) {
		No(mc.Set(&memcache.Item{Key: "short", Value: []byte("v"), Expiration: 1}))
		No(mc.Set(&memcache.Item{Key: "kept", Value: []byte("v"), Expiration: 1}))
		No(mc.Touch("kept", 100))
		Equal(mc.Touch("missing", 100), memcache.ErrCacheMiss)
		Until("the item's end", func() bool {
			_, err := mc.Get("short")
			return err == memcache.ErrCacheMiss
		})
		Equal(text(mc.Get("kept")), "v")
	})
	example("get and touch", func(mc *memcache.Client) {
		No(mc.Set(&memcache.Item{Key: "foo", Value: []byte("v"), Expiration: 1}))
		Equal(text(mc.GetAndTouch("foo", 100)), "v")
		_, err := mc.GetAndTouch("missing", 100)
		Equal(err, memcache.ErrCacheMiss)
	})
	example("keys", func(mc *memcache.Client) {
		Equal(mc.Set(&memcache.Item{Key: "has space", Value: []byte("v")}), memcache.ErrMalformedKey)
		No(mc.Set(&memcache.Item{Key: strings.Repeat("k", 250), Value: []byte("v")}))
		Equal(text(mc.Get(strings.Repeat("k", 250))), "v")
		No(mc.Set(&memcache.Item{Key: "Hello_世界", Value: []byte("hello world")}))
		Equal(text(mc.Get("Hello_世界")), "hello world")
	})
	example("binary, empty and large values", func(mc *memcache.Client) {
		large := bytes.Repeat([]byte("\x00\r\nEND\r\n\xff"), 80_000)
		No(mc.Set(&memcache.Item{Key: "large", Value: large}))
		True(bytes.Equal(Must(mc.Get("large")).Value, large), "the value")
		No(mc.Set(&memcache.Item{Key: "empty", Value: []byte{}}))
		Equal(text(mc.Get("empty")), "")
	})
	example("ping", func(mc *memcache.Client) { No(mc.Ping()) })
	End()
}
