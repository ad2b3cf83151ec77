// go-redis's documentation: README, the examples of its reference, and those of "Strings", "Bitmaps", "Bitfields", "HyperLogLog",
// "Pipelines and transactions" and "Client-side caching".
package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	. "terrace/clients/examples"
)

var (
	ctx     = context.Background()
	address = Address("REDIS_ADDRESS")
)

func connect(change func(*redis.Options)) *redis.Client {
	options := &redis.Options{Addr: address}
	if change != nil {
		change(options)
	}
	return redis.NewClient(options)
}

// example runs one with a client of an empty server.
func example(name string, work func(rdb *redis.Client)) {
	Example(name, func() {
		rdb := connect(nil)
		defer rdb.Close()
		No(rdb.FlushAll(ctx).Err())
		work(rdb)
	})
}

func main() {
	stringsAndKeys()
	pipelinesAndTransactions()
	pubSub()
	bits()
	connections()
	End()
}

func stringsAndKeys() {
	example("client", func(rdb *redis.Client) {
		No(rdb.Set(ctx, "key", "value", 0).Err())
		Gives("value")(rdb.Get(ctx, "key").Result())
		Equal(rdb.Get(ctx, "missing_key").Err(), redis.Nil)
		Gives("PONG")(rdb.Ping(ctx).Result())
	})
	example("set with expiration", func(rdb *redis.Client) {
		No(rdb.Set(ctx, "key2", "value", time.Hour).Err())
		ttl := Must(rdb.TTL(ctx, "key2").Result())
		True(ttl > 59*time.Minute && ttl <= time.Hour, "an hour")
		No(rdb.SetEx(ctx, "key", "value", time.Hour).Err())
		No(rdb.Set(ctx, "short", "value", 30*time.Millisecond).Err())
		Until("the key's end", func() bool { return errors.Is(rdb.Get(ctx, "short").Err(), redis.Nil) })
		Gives(time.Duration(-2))(rdb.TTL(ctx, "short").Result())
		Gives(true)(rdb.Persist(ctx, "key").Result())
		Gives(time.Duration(-1))(rdb.TTL(ctx, "key").Result())
		at := time.Now().Add(time.Hour).Truncate(time.Second)
		Gives(true)(rdb.ExpireAt(ctx, "key", at).Result())
		Equal(int64(Must(rdb.ExpireTime(ctx, "key").Result()).Seconds()), at.Unix())
		Gives("value")(rdb.GetEx(ctx, "key", 0).Result())
		Gives(time.Duration(-1))(rdb.TTL(ctx, "key").Result())
		Gives(false)(rdb.ExpireXX(ctx, "key", time.Hour).Result())
		Gives(true)(rdb.ExpireNX(ctx, "key", time.Hour).Result())
	})
	example("options of set", func(rdb *redis.Client) {
		Gives("OK")(rdb.Set(ctx, "bike:1", "Deimos", 0).Result())
		Gives(false)(rdb.SetNX(ctx, "bike:1", "bike", 0).Result())
		Gives(true)(rdb.SetXX(ctx, "bike:1", "bike", 0).Result())
		Gives("bike")(rdb.SetArgs(ctx, "bike:1", "new", redis.SetArgs{Get: true, KeepTTL: true}).Result())
		Equal(rdb.SetArgs(ctx, "bike:1", "x", redis.SetArgs{Mode: "NX"}).Err(), redis.Nil)
	})
	example("mset and mget", func(rdb *redis.Client) {
		Gives("OK")(rdb.MSet(ctx, "bike:1", "Deimos", "bike:2", "Ares", "bike:3", "Vanth").Result())
		Gives([]any{"Deimos", nil, "Vanth"})(rdb.MGet(ctx, "bike:1", "missing", "bike:3").Result())
		Gives(false)(rdb.MSetNX(ctx, "bike:1", "x", "bike:4", "y").Result())
	})
	example("scanning into a struct", func(rdb *redis.Client) {
		No(rdb.MSet(ctx, "name", "hello", "count", 123, "correct", true).Err())
		var data struct {
			Name    string `redis:"name"`
			Count   int    `redis:"count"`
			Correct bool   `redis:"correct"`
		}
		No(rdb.MGet(ctx, "name", "count", "empty", "correct").Scan(&data))
		Equal(fmt.Sprint(data), "{hello 123 true}")
	})
	example("counters", func(rdb *redis.Client) {
		Gives("OK")(rdb.Set(ctx, "total_crashes", "0", 0).Result())
		Gives(int64(1))(rdb.Incr(ctx, "total_crashes").Result())
		Gives(int64(11))(rdb.IncrBy(ctx, "total_crashes", 10).Result())
		Gives(int64(6))(rdb.DecrBy(ctx, "total_crashes", 5).Result())
		Gives(6.5)(rdb.IncrByFloat(ctx, "total_crashes", 0.5).Result())
		No(rdb.Set(ctx, "word", "x", 0).Err())
		Error(rdb.Incr(ctx, "word").Err(), "ERR value is not an integer or out of range")
	})
	example("parts of strings", func(rdb *redis.Client) {
		Gives(int64(5))(rdb.Append(ctx, "k", "Hello").Result())
		Gives(int64(11))(rdb.Append(ctx, "k", " World").Result())
		Gives("World")(rdb.GetRange(ctx, "k", 6, -1).Result())
		Gives(int64(11))(rdb.SetRange(ctx, "k", 6, "Redis").Result())
		Gives(int64(11))(rdb.StrLen(ctx, "k").Result())
		Gives("Hello Redis")(rdb.GetDel(ctx, "k").Result())
		No(rdb.MSet(ctx, "key1", "ohmytext", "key2", "mynewtext").Err())
		match := Must(rdb.LCS(ctx, &redis.LCSQuery{Key1: "key1", Key2: "key2"}).Result())
		Equal(match.MatchString, "mytext")
		match = Must(rdb.LCS(ctx, &redis.LCSQuery{Key1: "key1", Key2: "key2", Idx: true, WithMatchLen: true}).Result())
		Equal(match.Len, int64(6))
		Equal(match.Matches, []redis.LCSMatchedPosition{
			{Key1: redis.LCSPosition{Start: 4, End: 7}, Key2: redis.LCSPosition{Start: 5, End: 8}, MatchLen: 4},
			{Key1: redis.LCSPosition{Start: 2, End: 3}, Key2: redis.LCSPosition{Start: 0, End: 1}, MatchLen: 2},
		})
	})
	example("binary and large values", func(rdb *redis.Client) {
		value := strings.Repeat("\x00\r\n\xff", 512*1024)
		No(rdb.Set(ctx, "large", value, 0).Err())
		True(Must(rdb.Get(ctx, "large").Result()) == value, "the value")
		Equal(Must(rdb.Get(ctx, "large").Bytes())[:4], []byte{0, '\r', '\n', 255})
	})
	example("scan", func(rdb *redis.Client) {
		for i := range 33 {
			No(rdb.Set(ctx, fmt.Sprintf("key%d", i), "value", 0).Err())
		}
		var cursor uint64
		n := 0
		for {
			keys, next, err := rdb.Scan(ctx, cursor, "key*", 10).Result()
			No(err)
			n += len(keys)
			if cursor = next; cursor == 0 {
				break
			}
		}
		Equal(n, 33)
		keys, _, err := rdb.ScanType(ctx, 0, "", 100, "hash").Result()
		No(err)
		Equal(len(keys), 0)
	})
	example("scan iterator", func(rdb *redis.Client) {
		for i := range 200 {
			No(rdb.Set(ctx, fmt.Sprintf("prefix:%d", i), i, 0).Err())
		}
		seen := map[string]bool{}
		iter := rdb.Scan(ctx, 0, "prefix:*", 0).Iterator()
		for iter.Next(ctx) {
			seen[iter.Val()] = true
		}
		No(iter.Err())
		Equal(len(seen), 200)
	})
	example("custom commands", func(rdb *redis.Client) {
		_, err := rdb.Do(ctx, "get", "key_does_not_exist").Text()
		Equal(err, redis.Nil)
		cmd := redis.NewStringCmd(ctx, "get", "key_does_not_exist")
		Equal(rdb.Process(ctx, cmd), redis.Nil)
		Error(rdb.Do(ctx, "nosuch").Err(), "ERR unknown command 'nosuch'")
	})
	example("keys of the keyspace", func(rdb *redis.Client) {
		No(rdb.MSet(ctx, "a", 1, "b", 2).Err())
		Gives(int64(2))(rdb.Exists(ctx, "a", "b", "missing").Result())
		Gives("string")(rdb.Type(ctx, "a").Result())
		Gives("OK")(rdb.Rename(ctx, "a", "z").Result())
		Gives(false)(rdb.RenameNX(ctx, "z", "b").Result())
		Gives(int64(1))(rdb.Copy(ctx, "z", "copied", 0, false).Result())
		keys := Must(rdb.Keys(ctx, "*").Result())
		sort.Strings(keys)
		Equal(keys, []string{"b", "copied", "z"})
		Gives("int")(rdb.ObjectEncoding(ctx, "b").Result())
		Gives(int64(1))(rdb.Touch(ctx, "b", "missing").Result())
		Gives(int64(1))(rdb.Unlink(ctx, "z").Result())
		Gives(int64(2))(rdb.DBSize(ctx).Result())
		payload := Must(rdb.Dump(ctx, "b").Result())
		Gives("OK")(rdb.Restore(ctx, "restored", time.Hour, payload).Result())
		Gives("2")(rdb.Get(ctx, "restored").Result())
		Gives(true)(rdb.Move(ctx, "restored", 1).Result())
		one := connect(func(options *redis.Options) { options.DB = 1 })
		defer one.Close()
		Gives("2")(one.Get(ctx, "restored").Result())
		True(Must(rdb.MemoryUsage(ctx, "b").Result()) > 0, "bytes")
	})
}

func pipelinesAndTransactions() {
	example("pipeline", func(rdb *redis.Client) {
		pipe := rdb.Pipeline()
		incr := pipe.Incr(ctx, "pipeline_counter")
		pipe.Expire(ctx, "pipeline_counter", time.Hour)
		_ = Must(pipe.Exec(ctx))
		Equal(incr.Val(), int64(1))
	})
	example("pipelined and tx pipelined", func(rdb *redis.Client) {
		var incr *redis.IntCmd
		work := func(pipe redis.Pipeliner) error {
			incr = pipe.Incr(ctx, "counter")
			pipe.Expire(ctx, "counter", time.Hour)
			return nil
		}
		_ = Must(rdb.Pipelined(ctx, work))
		Equal(incr.Val(), int64(1))
		_ = Must(rdb.TxPipelined(ctx, work))
		Equal(incr.Val(), int64(2))
	})
	example("a long pipeline", func(rdb *redis.Client) {
		cmds := Must(rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range 5000 {
				pipe.Set(ctx, fmt.Sprintf("key%d", i), i, 0)
			}
			return nil
		}))
		Equal(len(cmds), 5000)
		Gives("4999")(rdb.Get(ctx, "key4999").Result())
	})
	example("watch", func(rdb *redis.Client) {
		increment := func(key string) error {
			txf := func(tx *redis.Tx) error {
				n, err := tx.Get(ctx, key).Int()
				if err != nil && !errors.Is(err, redis.Nil) {
					return err
				}
				_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
					pipe.Set(ctx, key, n+1, 0)
					return nil
				})
				return err
			}
			for range 10000 {
				err := rdb.Watch(ctx, txf, key)
				if !errors.Is(err, redis.TxFailedErr) {
					return err
				}
			}
			return errors.New("increment reached maximum number of retries")
		}
		errs := make(chan error, 100)
		var wg sync.WaitGroup
		for range 100 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				errs <- increment("counter3")
			}()
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			No(err)
		}
		Gives(100)(rdb.Get(ctx, "counter3").Int())
	})
	example("autopipeline", func(rdb *redis.Client) {
		ap := Must(rdb.AutoPipeline())
		defer ap.Close()
		var wg sync.WaitGroup
		errs := make(chan error, 1000)
		for i := range 1000 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				errs <- ap.Set(ctx, fmt.Sprintf("key:%d", i), i, 0).Err()
			}()
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			No(err)
		}
		Gives(int64(1000))(rdb.DBSize(ctx).Result())
	})
}

func pubSub() {
	for _, protocol := range []int{2, 3} {
		of := func(options *redis.Options) { options.Protocol = protocol }
		example(fmt.Sprintf("pub/sub in RESP%d", protocol), func(_ *redis.Client) {
			rdb := connect(of)
			defer rdb.Close()
			pubsub := rdb.Subscribe(ctx, "mychannel1")
			_ = Must(pubsub.Receive(ctx))
			ch := pubsub.Channel()
			Gives(int64(1))(rdb.Publish(ctx, "mychannel1", "hello").Result())
			msg := <-ch
			Equal([]string{msg.Channel, msg.Payload}, []string{"mychannel1", "hello"})
			No(pubsub.Close())
			_, open := <-ch
			Equal(open, false)
		})
		example(fmt.Sprintf("patterns, ping and shards in RESP%d", protocol), func(_ *redis.Client) {
			rdb := connect(of)
			defer rdb.Close()
			pubsub := rdb.PSubscribe(ctx, "my*")
			defer pubsub.Close()
			_ = Must(pubsub.Receive(ctx))
			Gives(int64(1))(rdb.Publish(ctx, "mychannel2", "hello").Result())
			msg := Must(pubsub.ReceiveMessage(ctx))
			Equal([]string{msg.Channel, msg.Pattern, msg.Payload}, []string{"mychannel2", "my*", "hello"})
			No(pubsub.Ping(ctx, "there?"))
			Equal(fmt.Sprint(Must(pubsub.Receive(ctx))), "Pong<there?>")
			Gives(int64(1))(rdb.PubSubNumPat(ctx).Result())
			shard := rdb.SSubscribe(ctx, "shard")
			defer shard.Close()
			_ = Must(shard.Receive(ctx))
			Gives(int64(1))(rdb.SPublish(ctx, "shard", "hello").Result())
			Equal(Must(shard.ReceiveMessage(ctx)).Payload, "hello")
		})
	}
	example("keyspace notifications", func(rdb *redis.Client) {
		No(rdb.ConfigSet(ctx, "notify-keyspace-events", "KEA").Err())
		defer rdb.ConfigSet(ctx, "notify-keyspace-events", "")
		pubsub := rdb.PSubscribe(ctx, "__keyevent@0__:expired")
		defer pubsub.Close()
		_ = Must(pubsub.Receive(ctx))
		No(rdb.Set(ctx, "short", "v", 30*time.Millisecond).Err())
		Until("the key's end", func() bool { return errors.Is(rdb.Get(ctx, "short").Err(), redis.Nil) })
		Equal(Must(pubsub.ReceiveMessage(ctx)).Payload, "short")
	})
}

func bits() {
	example("bitmaps", func(rdb *redis.Client) {
		Gives(int64(0))(rdb.SetBit(ctx, "pings:2024-01-01-00:00", 123, 1).Result())
		Gives(int64(1))(rdb.GetBit(ctx, "pings:2024-01-01-00:00", 123).Result())
		Gives(int64(0))(rdb.GetBit(ctx, "pings:2024-01-01-00:00", 456).Result())
		Gives(int64(1))(rdb.BitCount(ctx, "pings:2024-01-01-00:00", &redis.BitCount{Start: 0, End: 456}).Result())
		Gives(int64(123))(rdb.BitPos(ctx, "pings:2024-01-01-00:00", 1).Result())
		No(rdb.MSet(ctx, "a", "foobar", "b", "abcdef").Err())
		Gives(int64(6))(rdb.BitOpAnd(ctx, "dest", "a", "b").Result())
		Gives("`bc`ab")(rdb.Get(ctx, "dest").Result())
		Gives(int64(6))(rdb.BitOpNot(ctx, "dest", "a").Result())
	})
	example("bitfields", func(rdb *redis.Client) {
		Gives([]int64{0})(rdb.BitField(ctx, "bike:1:stats", "set", "u32", "#0", "1000").Result())
		Gives([]int64{950, 1})(rdb.BitField(ctx, "bike:1:stats", "incrby", "u32", "#0", "-50", "incrby", "u32", "#1", "1").Result())
		Gives([]int64{1450, 2})(rdb.BitField(ctx, "bike:1:stats", "incrby", "u32", "#0", "500", "incrby", "u32", "#1", "1").Result())
		Gives([]int64{1450, 2})(rdb.BitField(ctx, "bike:1:stats", "get", "u32", "#0", "get", "u32", "#1").Result())
		Gives([]int64{1450})(rdb.BitFieldRO(ctx, "bike:1:stats", "u32", "#0").Result())
	})
	example("hyperloglog", func(rdb *redis.Client) {
		Gives(int64(1))(rdb.PFAdd(ctx, "bikes", "Hyperion", "Deimos", "Phoebe", "Quaoar").Result())
		Gives(int64(4))(rdb.PFCount(ctx, "bikes").Result())
		Gives(int64(1))(rdb.PFAdd(ctx, "commuter_bikes", "Salacia", "Mimas", "Quaoar").Result())
		Gives("OK")(rdb.PFMerge(ctx, "all_bikes", "bikes", "commuter_bikes").Result())
		Gives(int64(6))(rdb.PFCount(ctx, "all_bikes").Result())
	})
}

func connections() {
	example("connecting by a url", func(_ *redis.Client) {
		for _, protocol := range []string{"2", "3"} {
			rdb := redis.NewClient(Must(redis.ParseURL("redis://" + address + "/5?protocol=" + protocol)))
			No(rdb.Set(ctx, "k", "five", 0).Err())
			Gives("five")(rdb.Get(ctx, "k").Result())
			No(rdb.Close())
		}
	})
	example("universal client", func(_ *redis.Client) {
		rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{address}})
		defer rdb.Close()
		Gives("PONG")(rdb.Ping(ctx).Result())
	})
	example("a connection's name", func(rdb *redis.Client) {
		conn := rdb.Conn()
		defer conn.Close()
		No(conn.ClientSetName(ctx, "foobar").Err())
		for range 10 {
			go rdb.Ping(ctx)
		}
		Gives("foobar")(conn.ClientGetName(ctx).Result())
		info := Must(conn.ClientInfo(ctx).Result())
		Equal(info.Name, "foobar")
		Equal(info.ID, Must(conn.ClientID(ctx).Result()))
	})
	example("a library's version", func(rdb *redis.Client) {
		conn := rdb.Conn()
		defer conn.Close()
		if err := conn.ClientSetInfo(ctx, redis.WithLibraryVersion("1.2.3")).Err(); err != nil {
			Error(err, "unknown subcommand")
			Skip("the server is older than 7.2")
		}
		Equal(Must(conn.ClientInfo(ctx).Result()).LibVer, "1.2.3")
	})
	example("pool of connections", func(_ *redis.Client) {
		rdb := connect(func(options *redis.Options) { options.PoolSize, options.MinIdleConns = 5, 2 })
		defer rdb.Close()
		var wg sync.WaitGroup
		for range 20 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range 20 {
					rdb.Incr(ctx, "n")
				}
			}()
		}
		wg.Wait()
		Gives("400")(rdb.Get(ctx, "n").Result())
		True(rdb.PoolStats().TotalConns <= 5, "at most five connections")
	})
	example("client-side caching", func(rdb *redis.Client) {
		cached := connect(func(options *redis.Options) {
			options.Protocol = 3
			options.ClientSideCacheConfig = &redis.ClientSideCacheConfig{MaxEntries: 10_000}
		})
		defer cached.Close()
		No(rdb.Set(ctx, "key", "old", 0).Err())
		Gives("old")(cached.Get(ctx, "key").Result())
		Gives("old")(cached.Get(ctx, "key").Result())
		No(rdb.Set(ctx, "key", "new", 0).Err())
		Until("the new value", func() bool { return cached.Get(ctx, "key").Val() == "new" })
	})
	example("username and password", func(rdb *redis.Client) {
		No(rdb.ACLSetUser(ctx, "alice", "on", ">secret", "~cached:*", "+get", "+set").Err())
		defer rdb.ACLDelUser(ctx, "alice")
		for _, protocol := range []int{2, 3} {
			alice := connect(func(options *redis.Options) {
				options.Username, options.Password, options.Protocol = "alice", "secret", protocol
			})
			No(alice.Set(ctx, "cached:1", "v", 0).Err())
			Error(alice.Get(ctx, "other").Err(), "NOPERM")
			Error(alice.Del(ctx, "cached:1").Err(), "NOPERM")
			No(alice.Close())
		}
		wrong := connect(func(options *redis.Options) { options.Username, options.Password = "alice", "wrong" })
		defer wrong.Close()
		Error(wrong.Get(ctx, "cached:1").Err(), "WRONGPASS")
		Gives("default")(rdb.ACLWhoAmI(ctx).Result())
		Error(rdb.ACLDryRun(ctx, "nobody", "get", "k").Err(), "not found")
	})
	example("info and configuration", func(rdb *redis.Client) {
		True(strings.Contains(Must(rdb.Info(ctx).Result()), "redis_version:"), "a version")
		sections := Must(rdb.InfoMap(ctx, "server").Result())
		True(sections["Server"]["redis_version"] != "", "a version in the map")
		Equal(len(Must(rdb.ConfigGet(ctx, "maxmemory-policy").Result())), 1)
		True(time.Since(Must(rdb.Time(ctx).Result())) < time.Minute, "the time")
		True(Must(rdb.Command(ctx).Result())["get"].ReadOnly, "get to be read only")
		Gives(int64(0))(rdb.Wait(ctx, 0, time.Millisecond).Result())
	})
	example("slow log", func(rdb *redis.Client) {
		const key = "slowlog-log-slower-than"
		old := Must(rdb.ConfigGet(ctx, key).Result())
		No(rdb.ConfigSet(ctx, key, "0").Err())
		defer rdb.ConfigSet(ctx, key, old[key])
		No(rdb.Do(ctx, "slowlog", "reset").Err())
		No(rdb.Set(ctx, "test", "true", 0).Err())
		entries := Must(rdb.SlowLogGet(ctx, -1).Result())
		Equal(len(entries), 2)
	})
}
