import sys
sys.path.insert(0,'.')
import convlog
from convlog.eventstore.importers import import_file
from convlog.projections.views import view
for f in sys.argv[1:]:
    with convlog.open(":memory:") as s:
        ids=import_file(s,f"/work/shared/data/{f}").thread_ids
        for i in ids[:2]:
            t=s.thread(i)
            pieces=view(t,"turn-memory@6")
            print("=====",f,i[:8],len(pieces))
            for p in pieces[:60]:
                e=p.element
                print(p.role,p.provenance,min(p.sources or (0,)),type(e).__name__,getattr(e,"name",""),repr(getattr(e,"text",""))[:110],[c.text[:140] for c in getattr(e,"content",())])
