import sys, time, msgspec, pickle, os
from convlog.eventstore.store import open_store
from convlog.projections.conversation import open as copen
from benchmarks.workload import fill
from convlog.projections.stages.request_v1 import body
from convlog.projections.stages.target_v1 import Options, target
from convlog.projections.profiles import profile_bytes
from convlog.projections.registry import get
from convlog.projections import derive
from convlog.projections.material import material
from convlog.projections.replay import imported_recipe
def pieces_of(n):
    s=copen(":memory:"); t=s.create_thread(); fill(t,n)
    return derive.assemble(material(t,t.head,t.position), imported_recipe("transcript@1"))
def main():
    n=int(sys.argv[1]); 
    pieces=pieces_of(n)
    print(len(pieces))
    for enc,prof in [("anthropic@1","claude-sonnet-4-6"),("openai-chat@1","gpt-5.4"),("openai-responses@1","gpt-5.4"),("gemini@1","gemini-3-flash-preview"),("bedrock@1","bedrock-claude")]:
        if len(sys.argv)>2 and not enc.startswith(sys.argv[2]): continue
        f=get(enc).function; tg=target(profile_bytes(prof))
        r=body(f(pieces,tg,Options(),{})); v=msgspec.json.decode(r)
        a=[];b=[];c=[]
        for _ in range(5):
            t0=time.perf_counter(); req=f(pieces,tg,Options(),{}); t1=time.perf_counter(); d=body(req); t2=time.perf_counter(); msgspec.json.encode(v); t3=time.perf_counter()
            a.append(t1-t0); b.append(t2-t1); c.append(t3-t2)
        m=sorted(a)[2]; mb=sorted(b)[2]; mc=sorted(c)[2]
        print(f"{enc} {len(r)/1e6:.1f}MB encode {m*1e3:.0f} ms body {mb*1e3:.1f} ms msgspec {mc*1e3:.1f} ms ratio {(m+mb)/mc:.1f}",flush=True)
if __name__=="__main__": main()
