;; The functions of function.rs as a module: the kinds empty (0), SHA-512 (1) and busy (2).
;; Memory: 0 request and block · 256 schedule · 1024 round constants · 1664 start values ·
;; 2048 answer, beginning with who it is.
(module
  (memory (export "memory") 1)
  (data (i32.const 1024) "@TABLES@")

  (func $swap (param $x i64) (result i64)
    (local.set $x (i64.or
      (i64.shl (i64.and (local.get $x) (i64.const 0x00ff00ff00ff00ff)) (i64.const 8))
      (i64.and (i64.shr_u (local.get $x) (i64.const 8)) (i64.const 0x00ff00ff00ff00ff))))
    (local.set $x (i64.or
      (i64.shl (i64.and (local.get $x) (i64.const 0x0000ffff0000ffff)) (i64.const 16))
      (i64.and (i64.shr_u (local.get $x) (i64.const 16)) (i64.const 0x0000ffff0000ffff))))
    (i64.rotl (local.get $x) (i64.const 32)))

  (func $fold (result i64)
    (local $mixed i64) (local $at i32)
    (loop $next
      (local.set $mixed (i64.xor (i64.rotl (local.get $mixed) (i64.const 7)) (i64.load (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 64))))
    (local.get $mixed))

  ;; From the 64 bytes at 0 to the digest at 2056.
  (func $digest
    (local $at i32) (local $early i64) (local $late i64) (local $first i64) (local $second i64)
    (local $a i64) (local $b i64) (local $c i64) (local $d i64)
    (local $e i64) (local $f i64) (local $g i64) (local $h i64)
    (loop $next
      (i64.store offset=256 (local.get $at) (call $swap (i64.load (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 64))))
    (i64.store (i32.const 320) (i64.const 0x8000000000000000))
    (memory.fill (i32.const 328) (i32.const 0) (i32.const 48))
    (i64.store (i32.const 376) (i64.const 512))
    (local.set $at (i32.const 128))
    (loop $next
      (local.set $early (i64.load offset=136 (local.get $at)))
      (local.set $late (i64.load offset=240 (local.get $at)))
      (i64.store offset=256 (local.get $at)
        (i64.add
          (i64.add
            (i64.load offset=128 (local.get $at))
            (i64.xor (i64.xor (i64.rotr (local.get $early) (i64.const 1)) (i64.rotr (local.get $early) (i64.const 8)))
              (i64.shr_u (local.get $early) (i64.const 7))))
          (i64.add
            (i64.load offset=200 (local.get $at))
            (i64.xor (i64.xor (i64.rotr (local.get $late) (i64.const 19)) (i64.rotr (local.get $late) (i64.const 61)))
              (i64.shr_u (local.get $late) (i64.const 6))))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 640))))
    (local.set $a (i64.load (i32.const 1664))) (local.set $b (i64.load (i32.const 1672)))
    (local.set $c (i64.load (i32.const 1680))) (local.set $d (i64.load (i32.const 1688)))
    (local.set $e (i64.load (i32.const 1696))) (local.set $f (i64.load (i32.const 1704)))
    (local.set $g (i64.load (i32.const 1712))) (local.set $h (i64.load (i32.const 1720)))
    (local.set $at (i32.const 0))
    (loop $next
      (local.set $first
        (i64.add
          (i64.add (local.get $h)
            (i64.xor (i64.xor (i64.rotr (local.get $e) (i64.const 14)) (i64.rotr (local.get $e) (i64.const 18)))
              (i64.rotr (local.get $e) (i64.const 41))))
          (i64.add
            (i64.xor (i64.and (local.get $e) (local.get $f))
              (i64.and (i64.xor (local.get $e) (i64.const -1)) (local.get $g)))
            (i64.add (i64.load offset=256 (local.get $at)) (i64.load offset=1024 (local.get $at))))))
      (local.set $second
        (i64.add
          (i64.xor (i64.xor (i64.rotr (local.get $a) (i64.const 28)) (i64.rotr (local.get $a) (i64.const 34)))
            (i64.rotr (local.get $a) (i64.const 39)))
          (i64.xor (i64.xor (i64.and (local.get $a) (local.get $b)) (i64.and (local.get $a) (local.get $c)))
            (i64.and (local.get $b) (local.get $c)))))
      (local.set $h (local.get $g)) (local.set $g (local.get $f)) (local.set $f (local.get $e))
      (local.set $e (i64.add (local.get $d) (local.get $first)))
      (local.set $d (local.get $c)) (local.set $c (local.get $b)) (local.set $b (local.get $a))
      (local.set $a (i64.add (local.get $first) (local.get $second)))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 640))))
    (i64.store (i32.const 2056) (call $swap (i64.add (local.get $a) (i64.load (i32.const 1664)))))
    (i64.store (i32.const 2064) (call $swap (i64.add (local.get $b) (i64.load (i32.const 1672)))))
    (i64.store (i32.const 2072) (call $swap (i64.add (local.get $c) (i64.load (i32.const 1680)))))
    (i64.store (i32.const 2080) (call $swap (i64.add (local.get $d) (i64.load (i32.const 1688)))))
    (i64.store (i32.const 2088) (call $swap (i64.add (local.get $e) (i64.load (i32.const 1696)))))
    (i64.store (i32.const 2096) (call $swap (i64.add (local.get $f) (i64.load (i32.const 1704)))))
    (i64.store (i32.const 2104) (call $swap (i64.add (local.get $g) (i64.load (i32.const 1712)))))
    (i64.store (i32.const 2112) (call $swap (i64.add (local.get $h) (i64.load (i32.const 1720))))))

  ;; Kind, id, rounds; returns the bytes of the answer.
  (func (export "run") (param $kind i32) (param $id i64) (param $rounds i64) (result i32)
    (local $turned i64)
    (i64.store (i32.const 2048) (local.get $id))
    (if (i32.eq (local.get $kind) (i32.const 1))
      (then
        (call $digest)
        (block $done
          (loop $again
            (local.set $rounds (i64.sub (local.get $rounds) (i64.const 1)))
            (br_if $done (i64.le_s (local.get $rounds) (i64.const 0)))
            (memory.copy (i32.const 0) (i32.const 2056) (i32.const 64))
            (call $digest)
            (br $again)))
        (return (i32.const 72))))
    (local.set $turned (call $fold))
    (if (i32.eq (local.get $kind) (i32.const 2))
      (then
        (block $done
          (loop $again
            (br_if $done (i64.eqz (local.get $rounds)))
            (local.set $rounds (i64.sub (local.get $rounds) (i64.const 1)))
            (local.set $turned
              (i64.add (i64.mul (local.get $turned) (i64.const 6364136223846793005)) (i64.const 1442695040888963407)))
            (br $again)))))
    (i64.store (i32.const 2056) (local.get $turned))
    (i32.const 16)))
